"""What happened on a walk along a stream. All counts stay on the device until they are read."""

from rotta.metrics.bank_log import BankLog, Memory
from rotta.metrics.course import Course, batches_per_window
from rotta.metrics.error_rates import ErrorRates
from rotta.metrics.visit_errors import VisitErrors

__all__ = ["BankLog", "Course", "ErrorRates", "Memory", "VisitErrors", "batches_per_window"]

"""Pictures, tables and pages of what was measured."""

"""A request that is not answered as asked, and what to do about it."""

ENDING = "the server is shutting down: send this to it again later"


class Refusal(Exception):
    """Becomes an answer with this status, whose body says why and what to do.

    Args:
        status: Of HTTP.
        message: One sentence for whoever sent the request.
        retry_after: Seconds after which it may be sent again.
    """

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after

"""Questions to a replica, which may die before it answers."""

import asyncio

from rotta.serve.ray.connection import require_ray
from rotta.serve.ray.messages import Answered, Asked
from rotta.serve.ray.router import Member

_PERIOD = 0.5  # seconds after which it is looked whether the replica counts as dead by now


class GoneError(RuntimeError):
    """A replica will not answer any more; whether it has done what it was asked is not known."""


async def ask_member(
    member: Member, asked: Asked, stream: str | None = None, epoch: int = 0
) -> Answered:
    """What a replica answers.

    Raises:
        GoneError: It died meanwhile.
    """
    exceptions = require_ray().exceptions
    call = asyncio.ensure_future(member.actor.answer.remote(asked, stream, epoch))
    try:
        while not call.done():
            await asyncio.wait({call}, timeout=_PERIOD)
            if member.gone:  # a machine without power may leave a call without an end
                raise GoneError(f"replica {member.number} is gone")
        answered: Answered = call.result()
    except exceptions.RayTaskError:
        raise  # a mistake in the replica, which lives
    except exceptions.RayError as error:
        raise GoneError(f"replica {member.number} is gone") from error
    finally:
        call.cancel()
    return answered

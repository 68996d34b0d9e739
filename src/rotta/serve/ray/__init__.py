"""The same service on several machines; needs ``pip install 'rotta[serve,ray,redis]'``.

Plain Ray actors stand behind the server, and not Ray Serve: that sends a request to any replica
that is free, and again to another one if the first dies. Here a stream's state lies in one replica,
no other may answer for it meanwhile, and what was learnt once must not be learnt again.
"""

from rotta.serve.ray.service import RayService

__all__ = ["RayService"]

"""``rotta serve``: one model for many streams, over HTTP."""

import logging
import signal
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rotta.cli import options
from rotta.cli.console import say

if TYPE_CHECKING:
    from rotta.serve.server import Servable

_ENGINES = ("local", "ray")
_REPLICAS = 2


def serve(
    model: Annotated[
        str,
        typer.Option(
            help="A source model by name (`rotta list sources`), or a weight file.", metavar="NAME"
        ),
    ] = "digits",
    store: Annotated[
        str,
        typer.Option(
            help="Where streams are kept: a file, or redis://HOST:PORT/NUMBER.", metavar="FILE"
        ),
    ] = "state.sqlite",
    save_every: Annotated[
        int,
        typer.Option(help="Requests of a stream between two saves of it.", metavar="N", min=1),
    ] = 10,
    resident: Annotated[
        int,
        typer.Option(help="Streams in memory; others wait in the store.", metavar="N", min=1),
    ] = 4096,
    host: Annotated[
        str, typer.Option(help="Where to listen; other machines can ask only with a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 for one that is free.", min=0, max=65535)] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            help="What clients must know. Better set in the environment, where other users of "
            "this machine do not see it.",
            envvar="ROTTA_TOKEN",
            metavar="SECRET",
        ),
    ] = None,
    max_batch: Annotated[
        int, typer.Option(help="Images in one pass through the network.", metavar="N", min=1)
    ] = 64,
    max_wait_ms: Annotated[
        float,
        typer.Option(help="How long a request waits for others to share it.", metavar="MS", min=0),
    ] = 5.0,
    queue: Annotated[
        int, typer.Option(help="Images that may wait; beyond, 503.", metavar="N", min=1)
    ] = 2048,
    queue_per_stream: Annotated[
        int,
        typer.Option(help="Images of one stream that may wait; beyond, 429.", metavar="N", min=1),
    ] = 128,
    max_images: Annotated[
        int, typer.Option(help="Images in one request; beyond, 413.", metavar="N", min=1)
    ] = 64,
    max_body_mb: Annotated[
        int, typer.Option(help="Size of one request; beyond, 413.", metavar="MB", min=1)
    ] = 32,
    max_megapixels: Annotated[
        # beyond, Pillow refuses
        int, typer.Option(help="Size of one image; beyond, 413.", metavar="N", min=1, max=178)
    ] = 25,
    image_size: Annotated[
        int | None,
        typer.Option(
            help="Side of the model's images; known for models of digits and CIFAR, and where the "
            "weight file says it.",
            metavar="PX",
            min=1,
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="Options of the method, as for `rotta run`: rotta:lr=0.0005:guard=true.",
            metavar="rotta:KEY=VALUE",
        ),
    ] = "rotta",
    engine: Annotated[
        str,
        typer.Option(
            help="local, or ray: several processes, on one machine or more, that share a Redis."
        ),
    ] = "local",
    replicas: Annotated[
        int | None,
        typer.Option(
            help="Processes that predict, each on a core or a GPU; 2 if left out. With --engine "
            "ray.",
            metavar="N",
            min=1,
        ),
    ] = None,
    ray_address: Annotated[
        str | None,
        typer.Option(
            help="Of the Ray cluster that this machine is part of, such as auto; Ray is started "
            "here if left out.",
            metavar="ADDRESS",
        ),
    ] = None,
    seed: options.Seed = 0,
    device: options.Device = "auto",
) -> None:
    """Serve a model to many streams; each adapts on its own and is kept over restarts.

    A stream starts with its first request. SIGTERM or Ctrl-C finishes what was asked and saves all;
    SIGTERM again changes nothing, a second Ctrl-C breaks off what is being answered, and saves.
    After `kill -9` every stream goes on from its last save. docs/serving.md tells the rest.

    Example: `rotta serve --model digits --port 8000 --store state.sqlite`, then
    `curl -F images=@seven.png http://127.0.0.1:8000/v1/streams/gate-7/predict`
    """
    from rotta import serve as serving
    from rotta.pool import StoreError

    chosen = _engine(engine, replicas, ray_address)
    where = options.pick_device(device)
    limits = serving.Limits(
        max_body=max_body_mb << 20,
        max_uploads=max(serving.Limits.max_uploads, 4 * max_body_mb << 20),
        max_images=max_images,
        max_pixels=max_megapixels * 1_000_000,
        queue=queue,
        queue_per_stream=queue_per_stream,
        max_batch=max_batch,
        max_wait=max_wait_ms / 1000,
    )
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    sock = serving.listen(host, port, token)
    try:
        service = chosen(
            serving.load_model(model, image_size=image_size),
            store=store,
            save_every=save_every,
            resident=resident,
            limits=limits,
            token=token,
            device=where,
            seed=seed,
            **_options_of(method),
        )
    except StoreError as error:
        raise ValueError(str(error)) from error
    saved = serving.run(service, sock, lambda url: say(f"serving {model} at {url}"))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # or Python, as it ends, lets one more kill it
    if not saved:
        raise typer.Exit(1)
    say("stopped, and all streams are saved")


def _engine(engine: str, replicas: int | None, address: str | None) -> "Callable[..., Servable]":
    """What builds a service, given what all services are."""
    if engine not in _ENGINES:
        raise ValueError(f"--engine is one of {', '.join(_ENGINES)}, not {engine!r}")
    if engine == "ray":
        from rotta.serve.ray import RayService

        return partial(RayService, replicas=replicas or _REPLICAS, address=address)
    if replicas is not None or address is not None:
        raise ValueError("--replicas and --ray-address are for a Ray cluster: add --engine ray")
    from rotta.serve import Service

    return Service


def _options_of(method: str) -> dict[str, Any]:
    from rotta.adapters.choice import parse_methods

    choices = parse_methods(method)
    if [choice.name for choice in choices] != ["rotta"]:
        raise ValueError(f"only rotta serves streams, not {method}: --method rotta:lr=0.0005")
    return choices[0].options

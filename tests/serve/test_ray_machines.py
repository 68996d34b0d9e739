"""The service on two machines, as Ray has them, of which one dies under load."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from live_server import digits, until
from ray_load import SAVE_EVERY, asking, assert_taught, wait_for_answers
from test_lives import OPTIONS, STREAMS
from test_stores import Redis, needs_redis

from rotta.client import Client, RefusedError
from rotta.serve import load_model, open_store, serving
from rotta.serve.ray.service import RayService

pytestmark = [needs_redis, pytest.mark.slow]

_NODE = {"num_cpus": 4, "object_store_memory": 100 * 2**20}


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    redis = Redis(tmp_path_factory.mktemp("redis"))
    yield redis
    redis.stop()


@pytest.fixture(scope="module")
def machines() -> Iterator[Any]:
    """Two machines, the first of which has the server."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={**_NODE, "include_dashboard": False})
    cluster.add_node(**_NODE)
    ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def test_a_replica_and_a_machine_die_under_load(machines: Any, redis: Redis) -> None:
    service = service_on(redis)
    with serving(service) as url:
        with asking(url) as cameras:
            wait_for_answers(cameras, 2 * SAVE_EVERY)
            nodes = {service.router.holder(name)[0].node for name in STREAMS}
            assert len(nodes) == 2
            os.kill(service.router.holder(STREAMS[0])[0].process, signal.SIGKILL)
            wait_for_answers(cameras, 2 * SAVE_EVERY)
            until(lambda: len(service.router.members) == 2)
            assert {member.node for member in service.router.members} == nodes
            wait_for_answers(cameras, 2 * SAVE_EVERY)
            machines.remove_node(next(iter(machines.worker_nodes)), allow_graceful=False)
            wait_for_answers(cameras, 2 * SAVE_EVERY)
            until(lambda: len({member.node for member in service.router.members}) == 1)
            until(lambda: Client(url).health()["status"] == "ok")  # the other machine had room
            wait_for_answers(cameras, 2 * SAVE_EVERY)
        assert_taught(cameras)


@pytest.mark.usefixtures("machines")
def test_a_replica_hangs_under_load_and_comes_back(redis: Redis) -> None:
    forget_all(redis)
    service = service_on(redis)
    with serving(service) as url:
        with asking(url) as cameras:
            wait_for_answers(cameras, 2 * SAVE_EVERY)
            hung = service.router.holder(STREAMS[0])[0]
            os.kill(hung.process, signal.SIGSTOP)
            wait_for_answers(cameras, 2 * SAVE_EVERY)
            assert hung.gone
            os.kill(hung.process, signal.SIGCONT)
            wait_for_answers(cameras, 2 * SAVE_EVERY)
        assert_taught(cameras)


@pytest.mark.usefixtures("machines")
def test_one_server_takes_over_from_another(redis: Redis) -> None:
    forget_all(redis)
    old = service_on(redis)
    with serving(old) as old_url:
        client = Client(old_url)
        before = client.predict("taken", digits(2)).counters.requests
        until(lambda: client.health()["unsaved"] == 0)
        with serving(service_on(redis)) as new_url:
            until(lambda: old.router.closed)
            with pytest.raises(RefusedError, match="another server has taken over"):
                client.predict("taken", digits(2))
            with pytest.raises(RefusedError):
                client.health()
            assert Client(new_url).predict("taken", digits(2)).counters.requests == before + 1


def forget_all(redis: Redis) -> None:
    store = open_store(redis.url)
    store.write(dict.fromkeys(store.names()))
    store.close()


def service_on(redis: Redis) -> RayService:
    return RayService(
        load_model("digits"), store=redis.url, replicas=2, save_every=SAVE_EVERY, **OPTIONS
    )

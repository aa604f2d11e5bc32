"""Ray Data on two local actors: the rows of one process, also when an actor is lost."""

import os
import signal

import pytest

import treasure

ray = pytest.importorskip("ray")
pytest.importorskip("pandas")
OPTIONS = dict(reward="cola", length=8, min_length=4, seed=1)
PROMPTS = [{"prompt": f"The {animal}", "number": n} for n, animal in enumerate(["dog", "cat", "cow", "hen", "fox", "bee", "ant", "elk"])]


@pytest.fixture(scope="module")
def cluster():
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def rows(dataset):
    return sorted((row["number"], row["prompt"], row["text"], row["reward"], row["nfe"]) for row in dataset.take_all())


@pytest.fixture(scope="module")
def expected():
    made = treasure.load("pocket").generate([row["prompt"] for row in PROMPTS], **OPTIONS)
    return sorted((n, one.prompt, one.text, one.reward, one.cost.nfe) for n, one in enumerate(made))


def test_two_actors_give_the_rows_of_one_process(cluster, expected):
    import treasure.ray

    dataset = ray.data.from_items(PROMPTS, override_num_blocks=4)
    made = dataset.map_batches(
        treasure.ray.Generate, fn_constructor_kwargs=dict(model="pocket", threads=1, **OPTIONS), batch_size=2, concurrency=2
    )
    assert rows(made) == expected


def test_a_lost_actor_loses_nothing(cluster, expected, tmp_path):
    import treasure.ray

    marker = tmp_path / "lost"

    class Fragile(treasure.ray.Generate):
        def __call__(self, batch):
            if not marker.exists():
                marker.write_text("")
                os.kill(os.getpid(), signal.SIGKILL)
            return super().__call__(batch)

    dataset = ray.data.from_items(PROMPTS, override_num_blocks=4)
    made = dataset.map_batches(
        Fragile, fn_constructor_kwargs=dict(model="pocket", threads=1, **OPTIONS), batch_size=2, concurrency=2
    )
    assert rows(made) == expected and marker.exists()


def test_an_instance_can_be_sent(cluster):
    import pickle

    import treasure.ray

    again = pickle.loads(pickle.dumps(treasure.ray.Generate(samples=2, **OPTIONS)))
    made = again({"prompt": ["The dog"], "number": [3]})
    assert made["number"] == [3, 3] and len(made["text"]) == 2 and made["sample"] == [0, 1]

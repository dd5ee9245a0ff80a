from kernelwright.evaluator.driver.measurement_cache import FactMemory, MeasurementCache
from kernelwright.evaluator.ipc.driver_requests import Recall, Remember


def test_facts_are_remembered_by_key_and_across_instances(tmp_path):
    MeasurementCache(tmp_path / "facts").remember("a", {"compile_ratio": 0.5})
    memory = MeasurementCache(tmp_path / "facts")
    assert memory.recall("a") == {"compile_ratio": 0.5}, "a strict reader refuses what it did not write"
    assert memory.recall("b") == {}


def test_verdicts_are_those_of_one_evaluator_and_compiler(tmp_path):
    memory = MeasurementCache(tmp_path, versions=lambda: "this")
    memory.remember("cpu:verdict:sanitized:a", {"x": 1})
    memory.remember("ratio", {"x": 2})
    assert memory.recall("cpu:verdict:sanitized:a")["x"] == 1
    other = MeasurementCache(tmp_path, versions=lambda: "other")
    assert other.recall("cpu:verdict:sanitized:a") == {}
    assert other.recall("ratio")["x"] == 2


def test_a_broken_file_is_only_forgotten(tmp_path):
    memory = MeasurementCache(tmp_path)
    memory.remember("a", {"x": 1})
    (path,) = tmp_path.iterdir()
    path.write_text("{")
    assert memory.recall("a") == {}


def test_an_unwritable_folder_forgets_quietly(tmp_path):
    (tmp_path / "file").write_text("")
    memory = MeasurementCache(tmp_path / "file" / "facts")
    memory.remember("a", {"x": 1})
    assert memory.recall("a") == {}


def test_facts_of_a_device_are_shared_and_those_of_a_problem_are_not(tmp_path):
    store = MeasurementCache(tmp_path)
    one, other = (FactMemory(store, "cpu", 4, problem_key=key) for key in ("one", "other"))
    one.remember(Remember(about="rates", facts={"x": 1}))
    one.remember(Remember(about="", facts={"y": 2}))
    assert other.recall(Recall(about="rates")).facts["x"] == 1
    assert other.recall(Recall(about="")).facts == {}
    assert one.recall(Recall(about="")).facts["y"] == 2
    assert store.recall("device:cpu:4:rates")["x"] == 1

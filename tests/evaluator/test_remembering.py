from evaluator.remembering import FileMemory


def test_facts_are_remembered_by_key_and_across_instances(tmp_path):
    FileMemory(tmp_path / "facts").remember("a", {"compile_ratio": 0.5})
    memory = FileMemory(tmp_path / "facts")
    assert memory.recall("a")["compile_ratio"] == 0.5
    assert memory.recall("b") == {}


def test_a_broken_file_is_only_forgotten(tmp_path):
    memory = FileMemory(tmp_path)
    memory.remember("a", {"x": 1})
    (path,) = tmp_path.iterdir()
    path.write_text("{")
    assert memory.recall("a") == {}


def test_an_unwritable_folder_forgets_quietly(tmp_path):
    (tmp_path / "file").write_text("")
    memory = FileMemory(tmp_path / "file" / "facts")
    memory.remember("a", {"x": 1})
    assert memory.recall("a") == {}

"""What a model's buffers held comes back, however a call changed them."""

import pytest
import torch
from torch import nn

from kernelwright.evaluator.ipc.model_state import ModelState


class Keeping(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("written", torch.zeros(3))
        self.register_buffer("replaced", torch.zeros(3), persistent=False)
        self.register_buffer("late", None)


def test_buffers_written_to_replaced_or_made_late_are_put_back():
    model = Keeping()
    written, replaced = model.written, model.replaced
    state = ModelState(model)
    assert not state.has_changed
    model.written.data.add_(1)
    assert state.has_changed
    model.replaced = model.replaced + 1
    model.late = torch.ones(3)
    state.restore()
    assert not state.has_changed
    assert model.written is written
    assert model.replaced is replaced
    assert float(written.sum() + replaced.sum()) == 0.0
    assert model.late is None


def test_what_no_state_dict_holds_is_a_candidates_own_unless_it_is_named():
    model = Keeping()
    own, named = (ModelState(model, names, without_own=True) for names in ((), ("replaced", "late")))
    model.replaced = model.replaced + 1
    model.late = torch.ones(3)
    assert not own.has_changed
    assert named.has_changed
    own.restore()
    assert float(model.replaced.sum() + model.late.sum()) == 6.0
    named.restore()
    assert model.late is None


def test_state_in_a_submodule_is_put_back_though_no_state_dict_holds_it():
    model = nn.Module()
    model.seen = Keeping()
    state = ModelState(model, ["replaced"], without_own=True)
    model.seen.replaced += 1
    state.restore()
    assert float(model.seen.replaced.sum()) == 0.0


def test_an_expanded_buffer_is_put_back_and_not_written_to():
    model = nn.Module()
    model.register_buffer("epsilon", torch.tensor(1e-5).expand(4))
    state, before = ModelState(model), model.epsilon
    model.epsilon = torch.ones(4)
    state.restore()
    assert model.epsilon is before


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_buffers_of_a_scripted_module_are_put_back():
    model = nn.Module()
    model.part = torch.jit.script(nn.BatchNorm1d(3))
    state = ModelState(model)
    model.part(torch.randn(8, 3))
    assert state.has_changed
    state.restore()
    assert not state.has_changed


def test_only_a_buffer_that_was_written_to_is_lent():
    model = Keeping()
    state = ModelState(model)
    model.replaced = model.replaced + 1
    assert not state.lends([model.written, model.replaced])
    model.written += 1
    assert state.lends([model.written[1:]])
    assert not state.lends([model.written.clone(), model.replaced])


def test_a_model_made_where_torch_keeps_no_record_is_put_back():
    with torch.inference_mode():
        model = Keeping()
        state = ModelState(model)
        model.written += 1
    state.restore()
    assert float(model.written.sum()) == 0.0


def test_what_is_no_module_keeps_nothing():
    assert not ModelState(len).has_changed

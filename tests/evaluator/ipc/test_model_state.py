"""What a model's buffers held comes back, however a call changed them."""

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

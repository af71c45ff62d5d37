"""transformers, Lightning, accelerate and Ignite as installed: windows beside their logs, text in TensorBoard."""

import glob

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
from tachograph import trainers


def steps_of(windows):
    return [[row["step"] for row in tg.open(path).ask("steps")] for path in windows.files]


def texts(folder):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = []
    for path in glob.glob(f"{folder}/**/events.out.tfevents.*", recursive=True):
        events = accumulator.EventAccumulator(path)
        events.Reload()
        for tag in events.Tags()["tensors"]:
            found += [tag] * len(events.Tensors(tag))
    return [tag for tag in found if "tachograph" in tag]


EXPECTED = [["5", "6"], ["10", "11"], ["15"]]  # of 16 steps, two every five


def test_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 1)

        def forward(self, x=None, labels=None):
            y = self.linear(x)
            return {"loss": (y - labels).square().mean(), "logits": y}

    data = [{"x": torch.randn(4), "labels": torch.randn(1)} for _ in range(64)]
    arguments = transformers.TrainingArguments(
        str(tmp_path), report_to=["tensorboard"], max_steps=16, per_device_train_batch_size=4, use_cpu=True,
        disable_tqdm=True, save_strategy="no",
    )  # fmt: skip
    callback = trainers.transformers(every=5, steps=2, on=())
    assert {n for n in dir(transformers.TrainerCallback) if n.startswith("on_")} <= set(dir(callback))
    transformers.Trainer(model=Model(), args=arguments, train_dataset=data, callbacks=[callback]).train()
    assert steps_of(callback.windows) == EXPECTED
    assert callback.windows.files[0] == str(tmp_path / "tachograph" / "step-0000007" / "rank0.tacho")
    assert len(texts(tmp_path)) == 3


def test_lightning(tmp_path):
    lightning = pytest.importorskip("lightning")
    from lightning.pytorch.loggers import TensorBoardLogger

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 1)

        def training_step(self, batch, index):
            return self.linear(batch[0]).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 4)), batch_size=4)
    callback = trainers.lightning(every=5, steps=2, on=())
    trainer = lightning.Trainer(
        max_steps=16, accelerator="cpu", logger=TensorBoardLogger(str(tmp_path)), callbacks=[callback],
        enable_progress_bar=False, enable_checkpointing=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Model(), data)
    assert steps_of(callback.windows) == EXPECTED and len(texts(tmp_path)) == 3
    assert callback.windows.files[0].startswith(trainer.log_dir)


def test_accelerate(tmp_path):
    accelerate = pytest.importorskip("accelerate")
    pytest.importorskip("tensorboard")
    accelerator = accelerate.Accelerator(cpu=True, project_dir=str(tmp_path), log_with="tensorboard")
    accelerator.init_trackers("run")
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    windows = trainers.accelerate(accelerator, every=5, steps=2, on=())
    for _ in range(16):
        optimizer.zero_grad()
        accelerator.backward(model(torch.randn(4, 4)).sum())
        optimizer.step()
        windows.step()
    windows.finish()
    accelerator.end_training()
    assert steps_of(windows)[:2] == EXPECTED[:2] and len(texts(tmp_path)) >= 3


def test_ignite(tmp_path):
    engine_module = pytest.importorskip("ignite.engine")
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def update(engine, batch):
        optimizer.zero_grad()
        loss = model(batch).sum()
        loss.backward()
        optimizer.step()
        if engine.state.iteration == 30:
            raise ValueError("the program's own")
        return loss.item()

    engine = engine_module.Engine(update)
    windows = trainers.ignite(engine, str(tmp_path), every=5, steps=2, on=())
    engine.run([torch.randn(4, 4)] * 16, max_epochs=1)
    assert steps_of(windows) == EXPECTED
    with pytest.raises(ValueError, match="the program's own"):
        engine.run([torch.randn(4, 4)] * 16, max_epochs=2)

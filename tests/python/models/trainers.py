#!/usr/bin/env python3
"""A compiled model in the hands of trainers: Hugging Face's Trainer, Lightning's, and a loop by accelerate, with the losses of each beside eager's.

    DIPTYCH_MODELS=out/models/site-packages python tests/python/models/trainers.py

Prints of each trainer and way to compile the largest difference of a loss and of a parameter, and what the compiled calls did. Exits with 1 if
one differs, or the module itself ran, with 77 without the packages.
"""
import os
import sys
import tempfile
import warnings

import packages
import torch
from torch import nn

import diptych

packages.find()
try:
    import accelerate
    import pytorch_lightning as lightning
    import transformers
except ImportError as absent:
    print(f"left out: {absent}")
    sys.exit(77)

STEPS, BATCH, LENGTH, VOCABULARY = 6, 4, 8, 31
TOLERANCE = {"Trainer": 2e-6}  # of losses, which it keeps in float32; else that of parameters
OF_PARAMETERS = 1e-9
os.environ["WANDB_DISABLED"] = "true"


def examples():
    generator = torch.Generator().manual_seed(5)
    tokens = torch.randint(VOCABULARY, (STEPS * BATCH, LENGTH), generator=generator)
    return [{"input_ids": row, "labels": row} for row in tokens]


def language_model():
    torch.manual_seed(1)
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=16, n_layer=2, n_head=2, attn_pdrop=0.1, bos_token_id=0, eos_token_id=0)
    return transformers.GPT2LMHeadModel(config).double()


def by_trainer(compile):
    model = compile(language_model())
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, per_device_train_batch_size=BATCH, max_steps=STEPS, logging_steps=1, report_to=[], save_steps=3, use_cpu=True, disable_tqdm=True, seed=3,
            gradient_accumulation_steps=1, max_grad_norm=0.5, dataloader_pin_memory=False, logging_nan_inf_filter=False,
        )  # fmt: skip
        trainer = transformers.Trainer(model=model, args=arguments, train_dataset=examples(), eval_dataset=examples()[:BATCH])
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
        losses = [row["loss"] for row in trainer.state.log_history if "loss" in row] + [trainer.evaluate()["eval_loss"]]
        loaded = transformers.GPT2LMHeadModel.from_pretrained(os.path.join(folder, f"checkpoint-{STEPS}"), dtype=torch.float64)
        assert all(torch.equal(one, other) for one, other in zip(loaded.parameters(), trainer.model.parameters(), strict=True))
    return losses, model


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net, self.losses = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.1), nn.BatchNorm1d(16), nn.GELU(), nn.Linear(16, 1)), []

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        loss = nn.functional.mse_loss(self(batch[0]), batch[1])
        self.losses.append(loss.item())
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)}


def loader():
    generator = torch.Generator().manual_seed(5)
    data = torch.randn(STEPS * BATCH, 6, generator=generator, dtype=torch.float64)
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(data, data.sum(1, keepdim=True)), batch_size=BATCH)


def by_lightning(compile, of=lambda module, compile: compile(module)):
    torch.manual_seed(1)
    module = of(Regression().double(), compile)
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False, gradient_clip_val=0.5, default_root_dir=folder)
        trainer.fit(module, loader())
        path = trainer.checkpoint_callback.best_model_path
        loaded = Regression.load_from_checkpoint(path, weights_only=True)
        assert all(torch.equal(one, other.float()) for one, other in zip(loaded.parameters(), module.parameters(), strict=True))
    return module.losses, module


def by_lightning_inside(compile):
    def of(module, compile):
        module.net = compile(module.net)
        return module

    return by_lightning(compile, of)


def by_accelerate(compile):
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    torch.manual_seed(1)
    model = compile(Regression().double())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model, optimizer, batches = accelerator.prepare(model, optimizer, loader())
    losses = []
    for x, y in batches:
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    unwrapped = accelerator.unwrap_model(model)
    assert isinstance(unwrapped, Regression)
    return losses, unwrapped


TRAINERS = {"Trainer": by_trainer, "Lightning": by_lightning, "Lightning, its net": by_lightning_inside, "accelerate": by_accelerate}
WAYS = {"aot_module": diptych.aot_module, "diptych.compile": diptych.compile}


def counted(model):
    """How many hits, captures and runs of the module itself there were in the compiled modules of a model."""
    calls = [diptych.AotModule.stats(module) for module in model.modules() if isinstance(module, diptych.AotModule)]
    calls += [module._compiled_call_impl.func.stats() for module in model.modules() if module._compiled_call_impl is not None and not isinstance(module, diptych.AotModule)]
    return [sum(getattr(stats, name) for stats in calls) for name in ("hits", "misses", "originals")], {stats.last_original for stats in calls}


def main():
    is_right = True
    warnings.filterwarnings("ignore")
    for name, train in TRAINERS.items():
        losses, model = train(lambda module: module)
        expected = [parameter.detach().clone() for parameter in model.parameters()]
        for way, compile in WAYS.items():
            ours, compiled = train(compile)
            of_losses = max(abs(one - other) for one, other in zip(ours, losses, strict=True))
            of_parameters = max((one - other).abs().max().item() for one, other in zip(compiled.parameters(), expected, strict=True))
            calls, why = counted(compiled)
            is_right &= of_losses < TOLERANCE.get(name, OF_PARAMETERS) and of_parameters < OF_PARAMETERS and calls[2] == 0 < calls[1]
            print(f"{name:20} {way:16} {len(losses)} losses off by {of_losses:.1e}, parameters by {of_parameters:.1e}; hits, captures, itself: {calls} {why}", flush=True)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())

"""diffusers: a step of a UNet, a loop of a sampler, and a pipeline."""
import torch
from harness import STEPS, judge, note_state, program, train

SIZE = 8


def unet():
    from diffusers import UNet2DModel

    blocks = dict(down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))
    return UNet2DModel(sample_size=SIZE, in_channels=1, out_channels=1, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, attention_head_dim=4, dropout=0.1, **blocks)


def images(number):
    return torch.randn(2, 1, SIZE, SIZE, generator=torch.Generator().manual_seed(number))


@program("diffusers.models.unets.unet_2d", "diffusers.schedulers.scheduling_ddpm")
def unet_denoises(way):
    from diffusers import DDPMScheduler

    scheduler = DDPMScheduler(num_train_timesteps=20)

    def loss(model, clean):
        noise, times = torch.randn_like(clean), torch.randint(20, (2,))
        return torch.nn.functional.mse_loss(model(scheduler.add_noise(clean, noise, times), times).sample, noise)

    return train(way, unet().train(), [(images(number),) for number in range(STEPS)], loss)


@program("diffusers.models.unets.unet_2d", "diffusers.schedulers.scheduling_ddim")
def ddim_samples(way):
    from diffusers import DDIMScheduler

    model, scheduler, seen = unet().eval(), DDIMScheduler(num_train_timesteps=20), judge.Seen()
    called, step = way.module(model), way.function(lambda model, x, t: model(x, t).sample)
    scheduler.set_timesteps(5)
    judge.seed(4)
    x = images(0)
    with torch.no_grad():
        for t in scheduler.timesteps:
            x = scheduler.step(step(called, x, t) if way.name == "F" else called(x, t).sample, t, x, eta=0.5).prev_sample
            seen.note("sample", x)
    return note_state(seen, model)


@program("diffusers.models.unets.unet_2d", "diffusers.pipelines.ddpm.pipeline_ddpm")
def pipeline_of_diffusers(way):
    from diffusers import DDPMPipeline, DDPMScheduler

    model, seen = unet().eval(), judge.Seen()
    pipeline = DDPMPipeline(way.module(model), DDPMScheduler(num_train_timesteps=20))
    if way.name == "F":
        model.forward = way.function(model.forward)
    pipeline.set_progress_bar_config(disable=True)
    for number in range(2):
        found = pipeline(batch_size=2, generator=torch.Generator().manual_seed(number), num_inference_steps=5, output_type="np")
        seen.note("images", torch.from_numpy(found.images))
    return note_state(seen, model)

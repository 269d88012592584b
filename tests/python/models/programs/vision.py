"""transformers' DETR and SegFormer, e3nn's convolution, and kornia's augmentations."""
import torch
from harness import STEPS, judge, note_state, program, train
from language import made, pixels, step_of
from torch import nn

SEGFORMER = dict(
    num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[8, 16], patch_sizes=[7, 3], strides=[4, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2],
    decoder_hidden_size=8, drop_path_rate=0.1, num_labels=3, hidden_dropout_prob=0.1,
)  # fmt: skip
step_of(
    "segformer", "SegformerForSemanticSegmentation", "SegformerConfig", SEGFORMER,
    lambda number: dict(pixel_values=pixels(number), labels=torch.arange(2 * 32 * 32).reshape(2, 32, 32) % 3),
)  # fmt: skip


@program("transformers.trainer", "timm", "scipy.optimize")
def detr_with_its_matcher(way):
    sizes = dict(d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24)
    backbone = dict(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None)
    from transformers import ResNetConfig

    backbone["backbone_config"] = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", out_features=["stage2"])
    model = made("DetrForObjectDetection", "DetrConfig", dict(sizes, num_queries=5, num_labels=4, **backbone)).train()

    def batch(number):
        boxes = torch.rand(3, 4, generator=torch.Generator().manual_seed(number)) * 0.3 + 0.3
        labels = [dict(class_labels=torch.tensor([1, 2]), boxes=boxes[:2]), dict(class_labels=torch.tensor([0]), boxes=boxes[2:])]
        return (dict(pixel_values=pixels(number, 64), labels=labels),)

    return train(way, model, [batch(number) for number in range(STEPS)], lambda model, keywords: model(**keywords).loss, rate=0.001)


class TensorProduct(nn.Module):
    """A convolution on a graph of points, equivariant to rotations."""

    def __init__(self):
        from e3nn import nn as layers
        from e3nn import o3

        super().__init__()
        inside, outside, self.harmonics = o3.Irreps("4x0e + 2x1o"), o3.Irreps("3x0e + 2x1o"), o3.Irreps.spherical_harmonics(2)
        self.product = o3.FullyConnectedTensorProduct(inside, self.harmonics, outside, shared_weights=False)
        self.weights = layers.FullyConnectedNet([4, 8, self.product.weight_numel], torch.nn.functional.silu)

    def forward(self, points, features, sources, targets):
        from e3nn import math, o3

        between = points[targets] - points[sources]
        spherical = o3.spherical_harmonics(self.harmonics, between, normalize=True, normalization="component")
        lengths = math.soft_one_hot_linspace(between.norm(dim=1), 0.0, 3.0, 4, basis="smooth_finite", cutoff=True)
        messages = self.product(features[sources], spherical, self.weights(lengths))
        return torch.zeros(len(points), messages.shape[1]).index_add(0, targets, messages).square().mean()


@program("e3nn.o3", "e3nn.nn")
def e3nn_convolution(way):
    generator = torch.Generator().manual_seed(1)
    points, features = torch.randn(6, 3, generator=generator), torch.randn(6, 10, generator=generator)
    sources, targets = torch.tensor([(i, j) for i in range(6) for j in range(6) if i != j]).T
    return train(way, TensorProduct(), [(points, features, sources, targets)] * STEPS)


def augmented(way):
    """Losses of a small net on images that kornia augments inside of the model."""
    from kornia import augmentation

    class Augmented(nn.Module):
        def __init__(self):
            super().__init__()
            flips = augmentation.RandomHorizontalFlip(p=0.5), augmentation.RandomAffine(20.0, p=0.7), augmentation.ColorJiggle(0.1, 0.1, 0.1, 0.1, p=0.8)
            self.augment, self.net = nn.Sequential(*flips, augmentation.RandomErasing(p=0.5)), nn.Conv2d(3, 4, 3)

        def forward(self, x):
            return self.net(self.augment(x)).square().mean()

    return train(way, Augmented(), [(pixels(number, 16).sigmoid(),) for number in range(STEPS)])


@program("kornia.augmentation")
def kornia_augmentations(way):
    return augmented(way)


@program("kornia.augmentation", "kornia.filters")
def kornia_in_eager_after_augmentations(way):
    import kornia

    seen = augmented(way)
    image = pixels(1, 16).sigmoid().requires_grad_()
    functions = {
        "blur": lambda x: kornia.filters.gaussian_blur2d(x, (3, 3), (1.0, 1.0)),
        "edges": kornia.filters.sobel,
        "hsv": lambda x: kornia.color.hsv_to_rgb(kornia.color.rgb_to_hsv(x)),
        "rotated": lambda x: kornia.geometry.rotate(x, torch.tensor([10.0, 20.0])),
        "warped": lambda x: kornia.geometry.warp_perspective(x, torch.eye(3).repeat(2, 1, 1), (16, 16)),
    }
    for name, function in functions.items():
        judge.seed(9)
        result = function(image)
        seen.note(name, result)
        seen.note(f"{name}'s gradient", torch.autograd.grad(result.square().sum(), image)[0])
    return note_state(seen)

"""Pictures as text for a browser: what an environment shows, and what its agent sees."""

import base64

import cv2
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space, is_image_space_channels_first

__all__ = ["heat_map", "image_part", "observation_picture", "picture"]

#: Larger pictures become JPEG: smaller and faster than PNG, and nobody counts their pixels
_MAX_PNG = 210 * 160
_JPEG_QUALITY = 85
_MAX_SIDE = 720


def picture(pixels: np.ndarray) -> str:
    """A data URL of a picture of height x width x 3, or of height x width."""
    height, width = pixels.shape[:2]
    if max(height, width) > _MAX_SIDE:
        scale = _MAX_SIDE / max(height, width)
        pixels = cv2.resize(pixels, (round(width * scale), round(height * scale)), interpolation=cv2.INTER_AREA)
    is_small = height * width <= _MAX_PNG
    pixels = np.ascontiguousarray(pixels[..., ::-1] if pixels.ndim == 3 else pixels, dtype=np.uint8)
    kind, settings = ("png", []) if is_small else ("jpeg", [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY])
    _, encoded = cv2.imencode(f".{kind}", pixels, settings)
    return f"data:image/{kind};base64,{base64.b64encode(encoded.tobytes()).decode()}"


def image_part(space: spaces.Space) -> str | None:
    """The key of the first image in a Dict space, ``""`` for a space that is an image, ``None`` without images."""
    if isinstance(space, spaces.Dict):
        return next((key for key, part in space.items() if is_image_space(part)), None)
    return "" if is_image_space(space) else None


def observation_picture(observation: np.ndarray, space: spaces.Box, is_colour: bool) -> str:
    """The frames of a stack side by side."""
    channels_last = observation.transpose(1, 2, 0) if is_image_space_channels_first(space) else observation
    n_channels = channels_last.shape[2]
    if is_colour and n_channels % 3 == 0:
        frames = [channels_last[..., i : i + 3] for i in range(0, n_channels, 3)]
    else:
        frames = [channels_last[..., i] for i in range(n_channels)]
    return picture(np.concatenate(frames, axis=1))


def heat_map(weights: np.ndarray) -> str:
    """Numbers of height x width from 0 to 1 as a grey picture."""
    return picture((255 * np.clip(weights, 0, 1)).astype(np.uint8))

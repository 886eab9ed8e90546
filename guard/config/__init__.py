"""The operator's file, and what is built from it once and shared by all requests."""

from guard.config.read import load_config
from guard.config.service import Service, build
from guard.config.settings import Config, default_config

__all__ = ["Config", "Service", "build", "default_config", "load_config"]

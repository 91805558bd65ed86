"""The templates of deploy/yarn."""

from support.repository import ROOT

TEMPLATES = ROOT / "deploy/yarn"

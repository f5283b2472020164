"""TRL's GRPOTrainer with a group size that changes between steps."""

from sagc.trl.trainer import SagcGRPOTrainer

__all__ = ["SagcGRPOTrainer"]

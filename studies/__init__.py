"""The paper's evaluation, reproduced and corrected, and what goes beyond it."""

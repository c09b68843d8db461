"""The durable handoff of an agent: workflow, steps and documents."""

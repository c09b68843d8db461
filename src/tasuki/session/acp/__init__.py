"""The ACP proxy: `/handoff` between any client and any agent of the Agent Client Protocol."""

"""What training frameworks report by themselves: one module each, which imports its framework.

Nothing of the client imports these modules. Whoever uses a framework does, or its entry point.
"""

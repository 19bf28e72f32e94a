"""Recollect behind the interfaces of agent frameworks.

Each adapter is an extra, is imported only when asked for, and works through the operations of an open memory alone.
"""

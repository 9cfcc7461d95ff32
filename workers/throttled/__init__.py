from workers.throttled.decorator import throttled_task

__all__ = ["throttled_task"]

"""What an installed headrace knows about itself: pages, steps, errors."""

"""Web Push: notifications to browsers that show no page, by the push service of the browser."""

"""What makes the dashboard an application of its own: its manifest.

It says nothing about the fleet, and is needed before a browser is signed in.
"""

import msgspec
from litestar import Response, get

from tasuki.web.views.templates import HEADERS, get_asset_address

ICONS = (("icon-192.png", 192, "any"), ("icon-512.png", 512, "any"), ("icon-maskable-512.png", 512, "maskable"))  # fmt: skip
MANIFEST = msgspec.json.encode({
    "id": "/", "name": "tasuki", "short_name": "tasuki", "description": "The agents of this fleet, and what they need of you.",
    "start_url": "/", "scope": "/", "display": "standalone", "background_color": "#f7f7f5", "theme_color": "#ffffff",
    "icons": [
        {"src": get_asset_address(name), "sizes": f"{size}x{size}", "type": "image/png", "purpose": purpose}
        for name, size, purpose in ICONS
    ],
})  # fmt: skip


@get("/manifest.webmanifest", sync_to_thread=False)
def serve_manifest() -> Response[bytes]:
    """Serve what a browser needs to install the dashboard."""
    headers = {**HEADERS, "Cache-Control": "no-cache"}
    return Response(MANIFEST, media_type="application/manifest+json", headers=headers)

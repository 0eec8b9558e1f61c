import json
from typing import Any


def run(text: str) -> str:
    customers: dict[str, Any] = {}
    for order in json.loads(text):
        if order["status"] == "cancelled":
            continue
        entry = customers.setdefault(order["customer"], {"orders": [], "cents": 0, "units": {}})
        entry["orders"].append(order["id"])
        for line in order["lines"]:
            entry["cents"] += line["count"] * line["cents"]
            entry["units"][line["sku"]] = entry["units"].get(line["sku"], 0) + line["count"]
    rows = [{"customer": name} | customers[name] for name in sorted(customers)]
    return json.dumps(rows, separators=(",", ":"))

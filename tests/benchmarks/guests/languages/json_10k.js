function run(text) {
  const customers = new Map();
  for (const order of JSON.parse(text)) {
    if (order.status === "cancelled") continue;
    let entry = customers.get(order.customer);
    if (!entry) customers.set(order.customer, (entry = { orders: [], cents: 0, units: {} }));
    entry.orders.push(order.id);
    for (const { sku, count, cents } of order.lines) {
      entry.cents += count * cents;
      entry.units[sku] = (entry.units[sku] ?? 0) + count;
    }
  }
  return JSON.stringify([...customers.keys()].sort().map((customer) => ({ customer, ...customers.get(customer) })));
}

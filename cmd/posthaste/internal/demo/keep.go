//go:build unix

package demo

import (
	"context"
	"fmt"
	"strings"
)

// trickle is how many events a second the service goes on writing.
const trickle = 5

// keep lets everything run until the context ends, and says what can be done with it.
func (d *demo) keep(ctx context.Context) error {
	third, err := d.addRelay()
	if err != nil {
		return err
	}
	if err := d.await(ctx, third, func(owned, _ int) bool { return owned > 0 }); err != nil {
		return err
	}
	d.kept.Store(true)
	d.invite()
	if err := d.service.run(ctx, trickle); err != nil {
		return err
	}
	if cause := context.Cause(ctx); cause != context.Canceled {
		return cause
	}
	_, _ = fmt.Fprintln(d.Out)
	return nil
}

func (d *demo) invite() {
	survivor, third := d.relays[1], d.relays[2]
	var b strings.Builder
	fmt.Fprintf(&b, `
Everything runs on until Ctrl-C: the service writes %d events a second, and a new relay is beside the old one.
In another terminal:

`, trickle)
	export := func(name, value string) { fmt.Fprintf(&b, "  export %s='%s'\n", name, value) }
	if d.DatabaseURL == "" {
		export("DATABASE_URL", d.url)
	} else {
		fmt.Fprintf(&b, "  # DATABASE_URL as you gave it\n")
		export("POSTHASTE_TABLE", d.table)
		export("POSTHASTE_SCHEMA", d.side)
	}
	if d.broker != nil {
		export("KAFKA_BROKERS", strings.Join(d.cfg.Brokers, ","))
	} else {
		fmt.Fprintf(&b, "  # KAFKA_BROKERS as you gave them\n")
	}
	fmt.Fprintf(&b, `
  %[1]s status
  %[1]s events tail
  curl -s http://%[2]s/metrics | grep ^posthaste_relay
  kill -9 %[3]d       # one of the two relays, pids %[3]d and %[4]d; the other goes on
  %[1]s relay       # and one of your own beside them
  psql "$DATABASE_URL" -c "insert into %[5]s
    (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key) values
    (gen_random_uuid(), 'Order', 'order-1', 'order.changed.v1', '{\"hello\": \"world\"}', '%[6]s', 'order-1')"

Logs of the relays: %[7]s and %[8]s
`, d.Command, survivor.address, third.pid(), survivor.pid(), d.table, d.service.topics[0], survivor.log, third.log)
	_, _ = fmt.Fprint(d.Out, b.String())
}

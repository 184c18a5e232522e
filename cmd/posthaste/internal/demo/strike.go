//go:build unix

package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// blow is what was known when a relay was killed.
type blow struct {
	at       time.Time
	open     map[string]bool // unpublished events of its lanes: only these may come twice
	inKafka  int             // of these, how many Kafka already had
	takeOver time.Duration   // until the other one had all lanes
}

// killOne kills the first relay with SIGKILL when events of its own are in Kafka and not yet marked. So that this can
// be known and not only hoped for, the relay is frozen, looked at, and let go on until it stands at such a place.
func (d *demo) killOne(ctx context.Context) error {
	victim, survivor := d.relays[0], d.relays[1]
	err := d.progress.step("kill -9", words("waiting for a chunk in flight"), func() (string, error) {
		if err := d.catch(ctx, victim); err != nil {
			return "", err
		}
		victim.kill()
		state := fmt.Sprintf("with events in Kafka that it had not marked yet: %d", d.blow.inKafka)
		if d.blow.inKafka == 0 {
			state = "but with nothing in flight: its marks were faster than every look"
		}
		return fmt.Sprintf("pid %d, %s", victim.pid(), state), nil
	})
	if err != nil {
		return err
	}
	killed := time.Now()
	return d.progress.step("take-over", words("waiting for the other relay"), func() (string, error) {
		err := d.await(ctx, survivor, func(owned, all int) bool { return owned == all })
		d.blow.takeOver = time.Since(killed)
		return fmt.Sprintf("pid %d has all keys after %.1f s", survivor.pid(), d.blow.takeOver.Seconds()), err
	})
}

// catch freezes a relay with a chunk in flight: one worth the name if there is one soon, then any, and after a while as
// it stands.
func (d *demo) catch(ctx context.Context, r *relay) error {
	begun := time.Now()
	d.blow.at = begun
	for {
		least := 10
		switch passed := time.Since(begun); {
		case passed > d.For/2:
			least = 0
		case passed > d.For/8:
			least = 1
		}
		r.freeze()
		// A mark that is on its way to PostgreSQL may still arrive, so only what stays open for two looks counts.
		for range 2 {
			if err := d.look(ctx, r); err != nil {
				return err
			}
		}
		if d.blow.inKafka >= least {
			return nil
		}
		r.thaw()
		if err := pause(ctx, rand.N(20*time.Millisecond)); err != nil {
			return err
		}
	}
}

// look notes what is open in the lanes of a frozen relay, and how much of it is in Kafka already.
func (d *demo) look(ctx context.Context, r *relay) (err error) {
	if err := d.consumer.catchUp(ctx); err != nil {
		return err
	}
	d.blow.open, err = openOf(ctx, d.db, d.table, d.side, strconv.Itoa(r.pid()))
	d.blow.inKafka = d.consumer.has(d.blow.open)
	return err
}

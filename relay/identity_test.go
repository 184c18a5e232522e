package relay_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

// The outbox belongs to the first cluster that a relay of it meets. Another is refused, by both claim modes, before
// anything is sent.
func TestAnotherClusterIsRefused(t *testing.T) {
	for _, claim := range []relay.ClaimMode{relay.ClaimLanes, relay.ClaimSkipLocked} {
		t.Run(string(claim), func(t *testing.T) {
			r := newRig(t, func(r *rig) { r.cfg.Claim, r.kafka.cluster = claim, "first" })
			r.write("t", "k", 3)
			r.start()
			r.untilDrained()
			r.must(r.end())
			if !slices.Equal(r.kafka.bound, []string{"first"}) {
				t.Errorf("the publisher was bound to %q", r.kafka.bound)
			}
			r.write("t", "k", 1)
			r.kafka.cluster = "second"
			r.start()
			r.refused("first", "second")
			if n := len(r.kafka.sent()); n != 3 {
				t.Errorf("%d events were sent, want the 3 from before", n)
			}
			r.must(r.accept("second"))
			r.start()
			r.untilDrained()
		})
	}
}

// A relay whose cluster is replaced while it runs ends, and says why.
func TestAClusterThatIsReplacedEndsTheRelay(t *testing.T) {
	r := newRig(t, func(r *rig) { r.kafka.cluster = "first" })
	r.write("t", "k", 1)
	r.start()
	r.untilDrained()
	r.kafka.mu.Lock()
	r.kafka.cluster = "second"
	r.kafka.mu.Unlock()
	r.refused("first", "second")
}

// A cluster without an id can't be told from others; an outbox goes on with it.
func TestAClusterWithoutAnID(t *testing.T) {
	r := newRig(t, nil)
	r.write("t", "k", 1)
	r.start()
	r.untilDrained()
	r.must(r.end())
	r.kafka.cluster = "first"
	r.write("t", "k", 1)
	r.start()
	r.untilDrained()
}

// While a relay runs nobody gives its outbox away.
func TestARunningRelayKeepsItsCluster(t *testing.T) {
	r := newRig(t, func(r *rig) { r.kafka.cluster = "first" })
	r.write("t", "k", 1)
	r.start()
	r.untilDrained()
	err := r.accept("second")
	if !errors.Is(err, postgres.ErrMembers) {
		t.Errorf("with a relay running: %v, want ErrMembers", err)
	}
}

// refused wants the relay to end by itself, for that reason.
func (r *rig) refused(own, found string) {
	r.t.Helper()
	err := r.wait()
	if !errors.Is(err, postgres.ErrCluster) || !strings.Contains(err.Error(), own) ||
		!strings.Contains(err.Error(), "cluster accept '"+found+"'") {
		r.t.Errorf("run returned %v, want a refusal of cluster %s by an outbox of %s", err, found, own)
	}
}

func (r *rig) accept(cluster string) error {
	r.t.Helper()
	conn, err := r.Pool.Acquire(r.t.Context())
	r.must(err)
	defer conn.Release()
	op, err := postgres.OpenOperator(r.t.Context(), conn.Conn(), r.store.Names)
	r.must(err)
	_, err = op.AcceptCluster(r.t.Context(), cluster, postgres.By{Actor: "a test"})
	return err
}

package relay

import "context"

// bind ties the outbox and the publisher to the cluster, or refuses it.
func (r *Relay) bind(ctx context.Context, cluster string) error {
	bctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	err := r.store.Bind(bctx, cluster)
	if err == nil {
		r.publisher.Bind(cluster)
	}
	if ctx.Err() == nil {
		r.ledger.databaseAnswered(err)
	}
	return err
}

// patient is a Publisher that hands nothing over before its cluster is known to be the outbox's own.
type patient struct {
	Publisher
	reached <-chan struct{}
}

// Publish implements Publisher. When the context ends while it waits, every event fails with the context's error.
func (p patient) Publish(ctx context.Context, events []*Event) []error {
	select {
	case <-p.reached:
		return p.Publisher.Publish(ctx, events)
	case <-ctx.Done():
	}
	errs := make([]error, len(events))
	for i := range errs {
		errs[i] = ctx.Err()
	}
	return errs
}

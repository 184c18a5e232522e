package relay

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff gives growing pauses with jitter, so that relays which failed together do not come back together.
type backoff struct {
	first, last, next time.Duration
}

func newBackoff(first, last time.Duration) *backoff { return &backoff{first, last, first} }

// pause returns the next pause: between half of it and all of it, each twice the one before, up to the last.
func (b *backoff) pause() time.Duration {
	p := b.next
	b.next = min(2*b.next, b.last)
	return p/2 + rand.N(p/2+1)
}

func (b *backoff) reset() { b.next = b.first }

// wait pauses, or returns early when the context ends.
func (b *backoff) wait(ctx context.Context) {
	t := time.NewTimer(b.pause())
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

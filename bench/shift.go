package main

import (
	"context"
	"errors"
)

// shift is a subject at work on what writers write, and a consumer that waits for it.
type shift struct {
	team  team
	watch *watch
	load  *load
	come  int // events that have been waited for
}

// engage starts a subject, which reaches its servers as reach says, and returns when it has shipped a transaction: from
// then on it is at work. The caller closes the shift.
func (p place) engage(ctx context.Context, reach place, s Subject, l load) (h *shift, err error) {
	h = &shift{load: &l}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	if h.team, err = start(s, reach, 1); err != nil {
		return nil, err
	}
	if h.watch, err = p.watch(ctx); err != nil {
		return nil, err
	}
	if !s.Traits().process {
		if l.direct, err = newProducer(p.brokers); err != nil {
			return nil, err
		}
	}
	once := l
	once.rate = 1
	if _, _, err := once.write(ctx, l.per); err != nil {
		return nil, err
	}
	return h, h.wait(ctx, l.per)
}

// wait waits for so many events more.
func (h *shift) wait(ctx context.Context, more int) error {
	h.come += more
	return h.watch.wait(ctx, h.team, h.come)
}

// stop ends the subject, which must do well, and checks all that has come.
func (h *shift) stop(ctx context.Context) (used, error) {
	used, err := h.team.stop()
	if err != nil {
		return used, err
	}
	_, err = h.load.verify(ctx)
	return used, err
}

func (h *shift) close() {
	h.team.kill()
	if h.watch != nil {
		h.watch.close()
	}
	if h.load.direct != nil {
		h.load.direct.Close()
	}
}

// inPlace does something in a place of its own.
func (g *grounds) inPlace(ctx context.Context, l layout, s Subject,
	do func(place) ([]Figure, error)) (figures []Figure, err error) {
	p, err := g.place(ctx, l, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close(ctx)) }()
	return do(p)
}

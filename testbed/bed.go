package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"posthaste.dev/posthaste/internal/testenv"
	"posthaste.dev/posthaste/testbed/servers"
)

// startLimit bounds one up, downloads included.
const startLimit = 10 * time.Minute

// bed is the folder of the test bed: a folder for each server, the settings file and a lock.
type bed struct {
	dir string

	mu       sync.Mutex
	settings map[string]string // what the settings file has
}

func openBed() (*bed, error) {
	dir, err := testenv.Dir()
	if err != nil {
		return nil, err
	}
	b := &bed{dir: dir}
	return b, b.read()
}

func (b *bed) file() string { return filepath.Join(b.dir, "env") }

func (b *bed) read() error {
	settings, err := testenv.ReadFile(b.file())
	if errors.Is(err, os.ErrNotExist) {
		settings, err = map[string]string{}, nil
	}
	b.settings = settings
	return err
}

// lock keeps a second up or down of this bed waiting, and reads the settings anew.
func (b *bed) lock(ctx context.Context) (unlock func(), err error) {
	unlock, err = servers.Lock(ctx, filepath.Join(b.dir, "lock"))
	if err != nil {
		return nil, err
	}
	if err := b.read(); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// up starts the servers that are wanted and do not run, all at the same time. When one of them fails, the others are
// kept, so that the next up is quick.
func (b *bed) up(ctx context.Context, w want) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	unlock, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	units := w.units()
	errs := make([]error, len(units))
	var wg sync.WaitGroup
	for i, u := range units {
		wg.Go(func() { errs[i] = b.bring(ctx, u) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (b *bed) bring(ctx context.Context, u unit) error {
	dir := filepath.Join(b.dir, u.name)
	if os.Getenv(u.key) != "" {
		progress("%s: given by %s", u.name, u.key)
		return nil
	}
	switch state, err := b.state(ctx, u); {
	case err != nil:
		return err
	case state == running:
		progress("%s: already up", u.name)
		return nil
	case state == broken:
		progress("%s: broken, starting anew", u.name)
		if err := wipe(ctx, dir); err != nil {
			return err
		}
	default:
		progress("%s: starting", u.name)
	}
	began := time.Now()
	settings, err := u.start(ctx, dir)
	if err != nil {
		return err
	}
	progress("%s: up after %.1f s", u.name, time.Since(began).Seconds())
	return b.put(settings)
}

// state is what up finds of a unit.
type state int

const (
	absent  state = iota
	running       // every process is alive and answers
	broken        // left by a reboot, a crash or a test that stopped a server and died; not worth a rescue
)

func (b *bed) state(ctx context.Context, u unit) (state, error) {
	dir := filepath.Join(b.dir, u.name)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return absent, nil
	}
	processes, err := servers.Noted(dir)
	if err != nil {
		return broken, err
	}
	alive := !slices.ContainsFunc(processes, func(p servers.Process) bool { return !p.Alive() })
	value := b.get(u.key)
	if len(processes) == 0 || !alive || value == "" || u.ping(ctx, value) != nil {
		return broken, ctx.Err()
	}
	return running, nil
}

func (b *bed) get(key string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.settings[key]
}

func (b *bed) put(settings map[string]string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.Copy(b.settings, settings)
	return testenv.WriteFile(b.file(), b.settings)
}

// missing returns the names of the servers that up would start.
func (b *bed) missing(ctx context.Context, w want) ([]string, error) {
	var names []string
	for _, u := range w.units() {
		if os.Getenv(u.key) != "" {
			continue
		}
		switch state, err := b.state(ctx, u); {
		case err != nil:
			return nil, err
		case state != running:
			names = append(names, u.name)
		}
	}
	return names, nil
}

// down ends the servers with these names and deletes their data. Without names, and when it leaves no server, it ends
// everything that was started in this folder, private servers of tests included.
func (b *bed) down(ctx context.Context, names ...string) error {
	unlock, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	kept, err := b.drop(ctx, names)
	if err != nil {
		return err
	}
	if len(names) > 0 && kept {
		progress("down: %s", strings.Join(names, ", "))
		return testenv.WriteFile(b.file(), b.settings)
	}
	if err := wipe(ctx, b.dir); err != nil {
		return err
	}
	progress("down")
	return nil
}

// drop ends the named servers, forgets their settings, and tells whether another server has a folder.
func (b *bed) drop(ctx context.Context, names []string) (kept bool, err error) {
	units := everything.units()
	for _, name := range names {
		if !slices.ContainsFunc(units, func(u unit) bool { return u.name == name }) {
			return false, fmt.Errorf("down: no server has the name %q; `go run ./testbed status` lists them", name)
		}
	}
	for _, u := range units {
		dir := filepath.Join(b.dir, u.name)
		if !slices.Contains(names, u.name) {
			_, err := os.Stat(dir)
			kept = kept || err == nil
			continue
		}
		if err := wipe(ctx, dir); err != nil {
			return false, err
		}
		delete(b.settings, u.key)
		delete(b.settings, u.pids)
	}
	return kept, nil
}

// wipe kills the servers of a folder and deletes it.
func wipe(ctx context.Context, dir string) error {
	if err := servers.EndAll(ctx, dir); err != nil {
		return err
	}
	return servers.RemoveFolder(dir)
}

// occupied tells whether anything was started in this folder.
func (b *bed) occupied() (bool, error) {
	processes, err := servers.Noted(b.dir)
	return slices.ContainsFunc(processes, servers.Process.Alive), err
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "testbed: "+format+"\n", args...)
}

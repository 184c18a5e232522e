package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// What Linux tells of processes. Elsewhere, and of a server on another machine, nothing is known, and the figures that
// rest on it are left out.

// tick is the unit of /proc/PID/stat, the same on every Linux that a program meets.
const tick = 10 * time.Millisecond

// stat is of /proc/PID/stat: the parent, processor time of the process, and that of children that it has outlived.
type stat struct {
	parent        int
	own, children time.Duration
}

func statOf(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 15 {
		return stat{}, fmt.Errorf("read /proc/%d/stat: %d fields", pid, len(fields))
	}
	number := func(i int) int {
		n, _ := strconv.Atoi(fields[i])
		return n
	}
	return stat{
		parent:   number(1),
		own:      time.Duration(number(11)+number(12)) * tick,
		children: time.Duration(number(13)+number(14)) * tick,
	}, nil
}

// ranFor is the processor time of a process to the nanosecond, of the threads that it has now.
func ranFor(pid int) (time.Duration, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		return 0, fmt.Errorf("read /proc/%d: no such process", pid)
	}
	var sum time.Duration
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil {
			continue // a thread that has ended since
		}
		first, _, _ := strings.Cut(string(text), " ")
		n, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", thread, err)
		}
		sum += time.Duration(n)
	}
	return sum, nil
}

// peakMemory is the most that a process has had in memory, in bytes; 0 if unknown. What wait4 tells is no use: it
// counts the process that this one was made from, too.
func peakMemory(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if size, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.ParseInt(strings.Fields(size)[0], 10, 64)
			return n << 10
		}
	}
	return 0
}

// share is what the server has spent so far, all of its processes together.
type share struct {
	cpu   time.Duration
	local bool // the processes are to be seen here
	wal   int64
}

func (p place) share(ctx context.Context) (s share, err error) {
	var backend int
	err = p.db.QueryRow(ctx, `select pg_backend_pid(), pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint`).
		Scan(&backend, &s.wal)
	if err != nil {
		return s, fmt.Errorf("ask for the server's share: %w", err)
	}
	s.cpu, s.local = serverTime(backend)
	return s, nil
}

// serverTime adds up the postmaster, its children, and those that have ended, whose time it has inherited.
func serverTime(backend int) (sum time.Duration, ok bool) {
	own, err := statOf(backend)
	if err != nil || !isServer(backend) {
		return 0, false
	}
	for range 100 {
		before, err := statOf(own.parent)
		if err != nil {
			return 0, false
		}
		sum = childrenTime(own.parent)
		// A child that has ended meanwhile may have been counted twice, or not at all.
		if after, err := statOf(own.parent); err == nil && after.children == before.children {
			return sum + after.own + after.children, true
		}
	}
	return 0, false
}

// childrenTime adds up the children that a process has now.
func childrenTime(parent int) (sum time.Duration) {
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0 // the pattern is sound
	}
	for _, dir := range processes {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if one, err := statOf(pid); err == nil && one.parent == parent {
			sum += one.own
		}
	}
	return sum
}

// isServer tells whether a process that the server named is to be seen here, and no other one that has its number.
func isServer(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.HasPrefix(string(line), "postgres")
}

// since are the figures of what was spent after an earlier look, for so many events.
func (s share) since(before share, events int) []Figure {
	figures := []Figure{{Name: "WAL", Unit: "B/event", Plain: true,
		Value: float64(s.wal-before.wal) / float64(events)}}
	if !s.local {
		return figures
	}
	cpu := float64((s.cpu - before.cpu).Microseconds()) / float64(events)
	return append([]Figure{{Name: "PostgreSQL CPU", Unit: "us/event", Value: cpu, Plain: true}}, figures...)
}

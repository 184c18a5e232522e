package servers

import (
	"bytes"
	"fmt"
	"os"
)

// startTime returns when a process started, in clock ticks since boot, from the kernel's table (proc_pid_stat(5)).
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field is the command in parentheses and may hold anything; the fields that matter stand after it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const state, starttime = 0, 19 // fields 3 and 22
	if len(fields) <= starttime {
		return "", fmt.Errorf("read start time of process %d: unknown format", pid)
	}
	if s := fields[state][0]; s == 'Z' || s == 'X' {
		return "", os.ErrProcessDone
	}
	return string(fields[starttime]), nil
}

package nspawn

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lab/atomicfile"
)

// process identifies a process across the reuse of its pid and across reboots.
type process struct {
	PID       int    `json:"pid"`
	StartTime string `json:"startTime"` // clock ticks since boot, /proc/PID/stat field 22
	BootID    string `json:"bootId"`
}

// record is what a running machine or network leaves on disk.
type record struct {
	Incarnation int     `json:"incarnation"`
	Process     process `json:"process"`
	Digest      string  `json:"digest"` // a machine: of its base tree; a network: its forwards
}

// Incarnation is the number with which a machine is to be declared: the recorded
// one while it lives, the next one when it is dead, 1 when it never was. A dead
// machine so becomes a changed input, and the next `pulumi up` starts it again.
func Incarnation(stateDir, network, machine string) int {
	return incarnation(filepath.Join(machineDir(stateDir, network, machine), recordFile))
}

// NetworkIncarnation is the same for a network.
func NetworkIncarnation(stateDir, network string) int {
	return incarnation(filepath.Join(networkDir(stateDir, network), recordFile))
}

func incarnation(path string) int {
	r, err := readRecord(path)
	switch {
	case err != nil:
		return 1
	case r.Process.alive():
		return r.Incarnation
	default:
		return r.Incarnation + 1
	}
}

func networkDir(stateDir, network string) string {
	return filepath.Join(stateDir, "machines", network)
}

func machineDir(stateDir, network, machine string) string {
	return filepath.Join(networkDir(stateDir, network), "m", machine)
}

func readRecord(path string) (record, error) {
	var r record
	raw, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(raw, &r)
}

func (r record) write(path string) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, raw, 0o600)
}

// identify describes a running process.
func identify(pid int) (process, error) {
	start, err := startTime(pid)
	if err != nil {
		return process{}, err
	}
	boot, err := bootID()
	return process{pid, start, boot}, err
}

// bootID is another one after each restart of the computer.
func bootID() (string, error) {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(raw)), err
}

func (p process) alive() bool {
	if p.PID == 0 {
		return false
	}
	now, err := identify(p.PID)
	return err == nil && now == p
}

func startTime(pid int) (string, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	start, err := parseStartTime(string(raw))
	if err != nil {
		return "", fmt.Errorf("process %d: %w", pid, err)
	}
	return start, nil
}

// parseStartTime reads /proc/PID/stat (proc(5)).
func parseStartTime(stat string) (string, error) {
	// The command name may hold spaces and brackets; the fields follow its last bracket.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return "", fmt.Errorf("its stat has %d fields", len(fields))
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return "", fmt.Errorf("it has ended")
	}
	return fields[19], nil
}

package nspawn

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"lab/atomicfile"
)

// owner is the record on this computer of whose network a name is.
type owner struct {
	StateDir string `json:"stateDir"`
	BootID   string `json:"bootId"`
}

const ownersDir = "/run/lab"

func ownerFile(network string) string { return filepath.Join(ownersDir, network+".json") }

// claim takes the network's name for stateDir, or says whose it is.
func claim(network, stateDir string) error {
	boot, err := bootID()
	if err != nil {
		return err
	}
	other, err := foreignOwner(network, stateDir)
	if err != nil {
		return err
	}
	if other != "" {
		self, _ := os.Executable()
		folder := filepath.Dir(other)
		return fmt.Errorf("network %s is in use by the lab in %s; run make down there (or, if no checkout is left there: cd %s && %s network down %s), or set lab:infra.network.name to another name here",
			network, folder, folder, self, network)
	}
	_, err = os.Stat(ownerFile(network))
	if errors.Is(err, os.ErrNotExist) && namespaceLives(network) {
		return fmt.Errorf("a network namespace %s exists that no lab made; remove it (ip netns del %s), or set lab:infra.network.name to another name", network, network)
	}
	raw, err := json.Marshal(owner{stateDir, boot})
	if err != nil {
		return err
	}
	return atomicfile.Write(ownerFile(network), raw, 0o644)
}

// foreignOwner is the state folder of the other lab that holds the network, ""
// when there is none: a computer that restarted since, or a folder that is gone,
// holds nothing.
func foreignOwner(network, stateDir string) (string, error) {
	raw, err := os.ReadFile(ownerFile(network))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	var o owner
	if err := errors.Join(err, json.Unmarshal(raw, &o)); err != nil {
		return "", fmt.Errorf("read %s: %w", ownerFile(network), err)
	}
	boot, err := bootID()
	if err != nil || o.StateDir == stateDir || (o.BootID != "" && o.BootID != boot) {
		return "", err
	}
	if _, err := os.Stat(networkDir(o.StateDir, network)); errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return o.StateDir, nil
}

// release gives the name back and removes the folder of the last one.
func release(network string) error {
	if err := os.Remove(ownerFile(network)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	_ = os.Remove(ownersDir) // stays when another network is there
	return nil
}

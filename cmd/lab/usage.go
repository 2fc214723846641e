package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// The exit statuses of lab, beside 0.
const (
	exitFailed = 1
	exitUsage  = 2
)

// usageError is a call that lab does not understand: nothing was done.
type usageError struct {
	error
	command string // whose --help says more
}

func (e usageError) Error() string { return fmt.Sprintf("%v; see %s --help", e.error, e.command) }

func (e usageError) Unwrap() error { return e.error }

// misused is a usage error of a command.
func misused(c *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return usageError{err, c.CommandPath()}
}

func exitStatus(err error) int {
	if usage := (usageError{}); errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

// strict makes usage errors of what cobra finds wrong with a call, in the command
// and all below it. A group of commands has nothing to run: cobra would print its
// help, with status 0, for any word that is none of them.
func strict(c *cobra.Command) {
	c.SetFlagErrorFunc(misused)
	check := c.Args
	switch {
	case !c.Runnable():
		check = knownCommand
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	case c.Name() == "help":
		check = knownTopic
	}
	c.Args = func(c *cobra.Command, args []string) error {
		err := errors.Join(c.ValidateRequiredFlags(), c.ValidateFlagGroups())
		if check != nil && err == nil {
			err = check(c, args)
		}
		return misused(c, err)
	}
	for _, below := range c.Commands() {
		strict(below)
	}
}

func knownCommand(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("unknown command %q", args[0])
}

func knownTopic(c *cobra.Command, args []string) error {
	if found, rest, err := c.Root().Find(args); err != nil || found == c.Root() && len(args) > 0 || len(rest) > 0 {
		return fmt.Errorf("no help of %q", args)
	}
	return nil
}

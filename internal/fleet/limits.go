package fleet

import (
	"fmt"
	"strconv"
	"time"
)

// Limits limit what one principal may have. 0 means no limit.
type Limits struct {
	// Agents limits the existing agents of all toolsets.
	Agents int `yaml:"agents"`
	// RunningTasks limits the tasks of all toolsets that have not ended.
	RunningTasks int `yaml:"running_tasks"`
	// StoredBytes limits the size of descriptions, summaries, output and payloads before compression. Running tasks may
	// exceed it; no new one starts until something is deleted or its retention ends.
	StoredBytes int64 `yaml:"stored_bytes"`
	// RequestsPerSecond limits the requests, on all faces and servers together.
	RequestsPerSecond int `yaml:"requests_per_second"`
	// Principals has other limits for principals, by name.
	Principals map[string]PrincipalLimits `yaml:"principals"`
	// Projects limits what all principals together have in a project, by its name.
	Projects map[string]ProjectLimits `yaml:"projects"`
}

// PrincipalLimits are the limits of one principal. Those that are nil are those of all.
type PrincipalLimits struct {
	Agents            *int   `yaml:"agents"`
	RunningTasks      *int   `yaml:"running_tasks"`
	StoredBytes       *int64 `yaml:"stored_bytes"`
	RequestsPerSecond *int   `yaml:"requests_per_second"`
}

// ProjectLimits limit one project. 0 means no limit.
type ProjectLimits struct {
	Agents       int `yaml:"agents"`
	RunningTasks int `yaml:"running_tasks"`
}

// Validate returns an error if a limit is negative.
func (l Limits) Validate() error {
	if err := l.validate("limits."); err != nil {
		return err
	}
	for name := range l.Principals {
		if err := l.For(name).validate("limits.principals." + name + "."); err != nil {
			return err
		}
	}
	for name, p := range l.Projects {
		if err := (Limits{Agents: p.Agents, RunningTasks: p.RunningTasks}).validate("limits.projects." + name + "."); err != nil {
			return err
		}
	}
	return nil
}

func (l Limits) validate(prefix string) error {
	for key, n := range map[string]int64{
		"agents": int64(l.Agents), "running_tasks": int64(l.RunningTasks), "stored_bytes": l.StoredBytes, "requests_per_second": int64(l.RequestsPerSecond),
	} {
		if n < 0 {
			return fmt.Errorf("%s%s is %d: use 0 for no limit, or a positive number", prefix, key, n)
		}
	}
	return nil
}

// For returns the limits of the principal.
func (l Limits) For(principal string) Limits {
	own, ok := l.Principals[principal]
	if !ok {
		return l
	}
	override(&l.Agents, own.Agents)
	override(&l.RunningTasks, own.RunningTasks)
	override(&l.StoredBytes, own.StoredBytes)
	override(&l.RequestsPerSecond, own.RequestsPerSecond)
	return l
}

func override[T any](value, own *T) {
	if own != nil {
		*value = *own
	}
}

// Holdings is what one owner has in the store.
type Holdings struct {
	Agents       map[Toolset]int // existing agents by toolset
	RunningTasks int             // tasks that have not ended
	StoredBytes  int64           // see Limits
}

// AllAgents returns the number of agents of all toolsets.
func (h Holdings) AllAgents() (n int) {
	for _, m := range h.Agents {
		n += m
	}
	return n
}

// LimitReached returns the error of a caller who has used all, or nearly all, of the limit with the setting key. what
// names the counted things, and next says what the caller can do.
func LimitReached(key string, used, most int64, what, next string) *Error {
	return Errorf(ReasonLimitReached, "you have %d %s and the limit is %d: %s, or ask the operator to raise %s", used, what, most, next, key).
		With("limit", key).With("used", strconv.FormatInt(used, 10)).With("max", strconv.FormatInt(most, 10))
}

// TooManyRequests returns the error of a principal that has sent as many requests as it may.
func TooManyRequests(most int, wait time.Duration) *Error {
	const key = "limits.requests_per_second"
	e := Errorf(ReasonLimitReached, "you may send %d requests a second: wait a moment and send fewer, or ask the operator to raise %s", most, key).
		With("limit", key).With("used", strconv.Itoa(most)).With("max", strconv.Itoa(most))
	e.RetryAfter = wait
	return e
}

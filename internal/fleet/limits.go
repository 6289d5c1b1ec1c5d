package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Limits limit what a principal and a project may have, and how many calls a server works on. 0 means no limit.
type Limits struct {
	// Agents limits the existing agents of all toolsets.
	Agents int `yaml:"agents"`
	// RunningTasks limits the running tasks of all toolsets. Pending tasks do not count.
	RunningTasks int `yaml:"running_tasks"`
	// StoredBytes limits the size of descriptions, summaries, output and payloads before compression. Running tasks may
	// exceed it; no new one starts until something is deleted or its retention ends.
	StoredBytes int64 `yaml:"stored_bytes"`
	// RequestsPerSecond limits the requests, on all faces and servers together.
	RequestsPerSecond int `yaml:"requests_per_second"`
	// OpenCalls limits the open calls of one principal on a server, such as streams and calls that wait for a task.
	OpenCalls int `yaml:"open_calls"`
	// CallsPerCPU limits how many calls a server works on at the same time, for each of its CPUs. Further calls wait, and
	// principals take turns.
	CallsPerCPU int `yaml:"calls_per_cpu"`
	// WaitingCalls limits the waiting calls of one principal on a server.
	WaitingCalls int `yaml:"waiting_calls"`
	// WaitingTime limits how long a call waits.
	WaitingTime time.Duration `yaml:"waiting_time"`
	// Principals has other limits for single principals, by name.
	Principals map[string]PrincipalLimits `yaml:"principals"`
	// Groups has other limits for each member of a group, by the group's name. Limits in Principals take precedence. For a
	// member of several groups, the highest limit counts.
	Groups map[string]PrincipalLimits `yaml:"groups"`
	// Projects limits what all principals together have in a project, by its name.
	Projects map[string]ProjectLimits `yaml:"projects"`
}

// PrincipalLimits are the limits of one principal. A limit that is nil is that of all principals.
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
	// StoredBytes limits the size of descriptions, summaries, output and payloads of the project's tasks, see Limits.
	StoredBytes int64 `yaml:"stored_bytes"`
	// RequestsPerSecond limits the calls that create an agent of the project, show it, change it, or give it work. Principals
	// share it evenly.
	RequestsPerSecond int `yaml:"requests_per_second"`
}

// limits returns p as Limits without any other limits.
func (p ProjectLimits) limits() Limits {
	return Limits{Agents: p.Agents, RunningTasks: p.RunningTasks, StoredBytes: p.StoredBytes, RequestsPerSecond: p.RequestsPerSecond}
}

// Validate returns an error if a limit is negative, or if the name of a group is not valid.
func (l Limits) Validate() error {
	if err := l.validate("limits."); err != nil {
		return err
	}
	if l.WaitingTime < 0 {
		return fmt.Errorf("limits.waiting_time is %s: use 0 for no limit, or a positive duration", l.WaitingTime)
	}
	for name, p := range l.Principals {
		if err := p.applyTo(Limits{}).validate("limits.principals." + name + "."); err != nil {
			return err
		}
	}
	for name, p := range l.Groups {
		if err := CheckGroup(name); err != nil {
			return fmt.Errorf("limits.groups: %w", err)
		}
		if err := p.applyTo(Limits{}).validate("limits.groups." + name + "."); err != nil {
			return err
		}
	}
	for name, p := range l.Projects {
		if err := p.limits().validate("limits.projects." + name + "."); err != nil {
			return err
		}
	}
	return nil
}

func (l Limits) validate(prefix string) error {
	for key, n := range map[string]int64{
		"agents": int64(l.Agents), "running_tasks": int64(l.RunningTasks), "stored_bytes": l.StoredBytes, "requests_per_second": int64(l.RequestsPerSecond),
		"calls_per_cpu": int64(l.CallsPerCPU), "waiting_calls": int64(l.WaitingCalls), "open_calls": int64(l.OpenCalls),
	} {
		if n < 0 {
			return fmt.Errorf("%s%s is %d: use 0 for no limit, or a positive number", prefix, key, n)
		}
	}
	return nil
}

// For returns the limits that hold for the principal, who is in the groups: the principal's own, else the highest of the groups,
// else the general ones.
func (l Limits) For(principal string, groups []string) Limits {
	all := l
	for i, p := range l.ofGroups(groups) {
		if ofGroup := p.applyTo(all); i == 0 {
			l = ofGroup
		} else {
			l.Agents, l.RunningTasks = higher(l.Agents, ofGroup.Agents), higher(l.RunningTasks, ofGroup.RunningTasks)
			l.StoredBytes, l.RequestsPerSecond = higher(l.StoredBytes, ofGroup.StoredBytes), higher(l.RequestsPerSecond, ofGroup.RequestsPerSecond)
		}
	}
	return all.Principals[principal].applyTo(l)
}

// Limit is a limit of a principal or a project.
type Limit struct {
	Kind string // agents, running_tasks, stored_bytes or requests_per_second
	Max  int64
	// Group, Principal and Project name whose limit it is. All are empty for the limit of all principals.
	Group, Principal, Project string
}

// Setting returns the name of the setting that sets the limit, such as limits.groups.GROUP.agents.
func (l Limit) Setting() string {
	switch {
	case l.Project != "":
		return "limits.projects." + l.Project + "." + l.Kind
	case l.Principal != "":
		return "limits.principals." + l.Principal + "." + l.Kind
	case l.Group != "":
		return "limits.groups." + l.Group + "." + l.Kind
	}
	return "limits." + l.Kind
}

// ListFor returns those limits of For that principals and groups can have of their own, except those that are 0. Each says whose
// limit it is.
func (l Limits) ListFor(principal string, groups []string) (limits []Limit) {
	unset := Limits{Agents: -1, RunningTasks: -1, StoredBytes: -1, RequestsPerSecond: -1}
	ofPrincipal := l.Principals[principal].applyTo(unset).byKind()
	for i, limit := range l.For(principal, groups).byKind() {
		setsLimit := func(group string) bool {
			g, ok := l.Groups[group]
			return ok && g.applyTo(unset).byKind()[i].Max == limit.Max
		}
		switch at := slices.IndexFunc(groups, setsLimit); {
		case limit.Max == 0:
			continue
		case ofPrincipal[i].Max >= 0:
			limit.Principal = principal
		case at >= 0:
			limit.Group = groups[at]
		}
		limits = append(limits, limit)
	}
	return limits
}

// SettingOf returns the name of the setting that sets the limit of the kind for the principal.
func (l Limits) SettingOf(kind, principal string, groups []string) string {
	for _, limit := range l.ListFor(principal, groups) {
		if limit.Kind == kind {
			return limit.Setting()
		}
	}
	return Limit{Kind: kind}.Setting()
}

// ListForProject returns the limits of the project, except those that are 0.
func (l Limits) ListForProject(name string) (limits []Limit) {
	for _, limit := range l.Projects[name].limits().byKind() {
		if limit.Project = name; limit.Max > 0 {
			limits = append(limits, limit)
		}
	}
	return limits
}

// byKind returns l as one Limit for each kind.
func (l Limits) byKind() []Limit {
	return []Limit{
		{Kind: "agents", Max: int64(l.Agents)},
		{Kind: "running_tasks", Max: int64(l.RunningTasks)},
		{Kind: "stored_bytes", Max: l.StoredBytes},
		{Kind: "requests_per_second", Max: int64(l.RequestsPerSecond)},
	}
}

// ofGroups returns the limits of those groups that have limits of their own.
func (l Limits) ofGroups(groups []string) (limits []PrincipalLimits) {
	for _, name := range groups {
		if g, ok := l.Groups[name]; ok {
			limits = append(limits, g)
		}
	}
	return limits
}

// applyTo returns l with the limits that p sets.
func (p PrincipalLimits) applyTo(l Limits) Limits {
	override(&l.Agents, p.Agents)
	override(&l.RunningTasks, p.RunningTasks)
	override(&l.StoredBytes, p.StoredBytes)
	override(&l.RequestsPerSecond, p.RequestsPerSecond)
	return l
}

func override[T any](value, replacement *T) {
	if replacement != nil {
		*value = *replacement
	}
}

// higher returns the limit that allows more.
func higher[T int | int64](a, b T) T {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a, b)
}

// Holdings are the numbers of what one owner has in the store.
type Holdings struct {
	Agents       map[Toolset]int // existing agents by toolset
	RunningTasks int             // pending tasks do not count
	StoredBytes  int64           // see Limits
}

// ProjectHoldings are the numbers of what a project has in the store, of all owners together.
type ProjectHoldings struct {
	Agents       int   // existing agents
	RunningTasks int   // pending tasks do not count
	StoredBytes  int64 // of its tasks, see Limits
}

// AllAgents returns the number of agents of all toolsets.
func (h Holdings) AllAgents() (n int) {
	for _, m := range h.Agents {
		n += m
	}
	return n
}

// LimitRetryAfter is the suggested wait after an error that lasts until somebody acts, for example deletes something. Nobody
// knows when that happens, but a client should not repeat refused calls more often than this.
const LimitRetryAfter = time.Minute

// BusyRetryAfter is the suggested wait after LIMIT_REACHED if too many tasks or calls are under way. It is a guess: nobody knows when
// one of them ends.
const BusyRetryAfter = 5 * time.Second

// LimitReached returns LIMIT_REACHED for somebody who has too little left of a limit. The message begins with the text whoHas, such
// as "you have". The text what names the counted things, key names the setting of the limit, and next says what the caller can do,
// see Error.Next.
func LimitReached(key, whoHas string, used, most int64, what, next string) *Error {
	return Errorf(ReasonLimitReached, "%s %d %s and the limit is %d: end or delete some, or ask the operator to raise %s", whoHas, used, what, most, key).
		AtLimit(key, used, most).After(LimitRetryAfter).Next(next)
}

// TooManyRequestsIn returns LIMIT_REACHED for a principal that has used its part of a project's requests per second. most is the
// limit of the project. The principal may try again after wait.
func TooManyRequestsIn(project string, most int, wait time.Duration) *Error {
	key := Limit{Kind: "requests_per_second", Project: project}.Setting()
	return Errorf(ReasonLimitReached, "the project %s takes %d requests a second of all its users, and you have used your part: wait a moment and send fewer, or ask the operator to raise %s", project, most, key).
		AtLimit(key, int64(most), int64(most)).After(wait)
}

// TooManyRequests returns LIMIT_REACHED for a principal that has sent as many requests a second as most allows. It may try
// again after wait.
func TooManyRequests(most int, wait time.Duration) *Error {
	const key = "limits.requests_per_second"
	return Errorf(ReasonLimitReached, "you may send %d requests a second: wait a moment and send fewer, or ask the operator to raise %s", most, key).
		AtLimit(key, int64(most), int64(most)).After(wait)
}

// TooManyWaiting returns LIMIT_REACHED for a principal that has most waiting calls, which is the limit. It may try
// again after wait.
func TooManyWaiting(most int, wait time.Duration) *Error {
	const key = "limits.waiting_calls"
	return Errorf(ReasonLimitReached, "the server is busy, and you have %d waiting calls, which is the limit: make fewer at the same time, or ask the operator to raise %s", most, key).
		AtLimit(key, int64(most), int64(most)).After(wait)
}

// TooManyOpen returns LIMIT_REACHED for a principal that has most open calls, which is the limit. It may try again
// after wait.
func TooManyOpen(most int, wait time.Duration) *Error {
	const key = "limits.open_calls"
	return Errorf(ReasonLimitReached, "you have %d open calls on this server, which is the limit: end streams or waiting calls, or ask the operator to raise %s", most, key).
		AtLimit(key, int64(most), int64(most)).After(wait)
}

// WaitedTooLong returns LIMIT_REACHED for a call that got no slot within most. The caller may try again after wait.
func WaitedTooLong(most, wait time.Duration) *Error {
	const key = "limits.waiting_time"
	seconds := strconv.FormatFloat(most.Seconds(), 'f', -1, 64)
	return Errorf(ReasonLimitReached, "the server is busy, and your call has waited for %s: try again in a moment, or ask the operator to raise %s", most, key).
		With("limit", key).With("used", seconds).With("max", seconds).After(wait)
}

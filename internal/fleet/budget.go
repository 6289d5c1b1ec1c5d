package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// BudgetKind is the kind of the resources that are budgets.
const BudgetKind ResourceKind = "budget"

// MaxBudgets is the largest number of budgets.
const MaxBudgets = 200

// Budget limits what the tasks of a scope may cost in a window of time. It counts the tasks that start while it exists. A task
// counts in the window in which it starts.
type Budget struct {
	Name       string         `json:"name"`
	Scope      BudgetScope    `json:"scope"`
	Value      string         `json:"value,omitempty"` // one thing of the scope, such as a project; empty for BudgetFleet
	Window     BudgetWindow   `json:"window"`
	TimeZone   string         `json:"time_zone,omitempty"` // of the window, as in the IANA database; empty: UTC
	Limit      Micros         `json:"limit_micros,omitempty"`
	TokenLimit int64          `json:"limit_tokens,omitempty"` // 0: no limit of tokens
	OnBreach   BreachAction   `json:"on_breach"`
	Unpriced   UnpricedPolicy `json:"unpriced"`

	UpdatedBy string    `json:"by"` // name of the principal that set it last
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// BudgetScope says which tasks a budget is for.
type BudgetScope string

// The scopes of budgets.
const (
	BudgetFleet   BudgetScope = "fleet"
	BudgetProject BudgetScope = "project" // the value is a name or PLACE/NAME
	BudgetPool    BudgetScope = "pool"
	BudgetRole    BudgetScope = "role"  // the value is a name or PROJECT/NAME
	BudgetAgent   BudgetScope = "agent" // the value is a name or NAME@OWNER
	BudgetOwner   BudgetScope = "owner"
	BudgetLabel   BudgetScope = "label" // the value is a selector
	// BudgetCredential is for the tasks of all agents that use the credential.
	BudgetCredential BudgetScope = "credential"
)

// BudgetScopes are all scopes of budgets.
var BudgetScopes = []BudgetScope{BudgetFleet, BudgetProject, BudgetPool, BudgetRole, BudgetAgent, BudgetOwner, BudgetLabel, BudgetCredential}

// BudgetWindow is the period after which a budget starts again from zero. It begins at midnight in Budget.TimeZone.
type BudgetWindow string

// The windows of budgets.
const (
	WindowNone  BudgetWindow = "none" // the budget never starts again
	WindowDay   BudgetWindow = "day"
	WindowWeek  BudgetWindow = "week"  // from Monday
	WindowMonth BudgetWindow = "month" // from its first day
)

// BudgetWindows are all windows of budgets.
var BudgetWindows = []BudgetWindow{WindowNone, WindowDay, WindowWeek, WindowMonth}

// BreachAction says what happens to a running task that has used up the budget.
type BreachAction string

// The values of BreachAction.
const (
	BreachHold BreachAction = "hold" // it is interrupted and waits until the budget has room again
	BreachStop BreachAction = "stop" // it fails
	BreachAsk  BreachAction = "ask"  // it is interrupted and waits until somebody decides whether it goes on
)

// breachActions are all values of BreachAction.
var breachActions = []BreachAction{BreachHold, BreachStop, BreachAsk}

// UnpricedPolicy says whether tasks whose cost Fleet cannot know may start.
type UnpricedPolicy string

// The values of UnpricedPolicy.
const (
	UnpricedRefuse UnpricedPolicy = "refuse"
	UnpricedAllow  UnpricedPolicy = "allow"
)

// Validate sets the defaults of the values that are not given. It returns INVALID_ARGUMENT if a value is not valid.
func (b *Budget) Validate() error {
	b.Scope, b.Window = cmp.Or(b.Scope, BudgetFleet), cmp.Or(b.Window, WindowNone)
	b.OnBreach, b.Unpriced = cmp.Or(b.OnBreach, BreachHold), cmp.Or(b.Unpriced, UnpricedRefuse)
	if err := checkKeyName(b.Name); err != nil {
		return InvalidField("name", "%v", err)
	}
	if err := cmp.Or(checkOneOf("scope", b.Scope, BudgetScopes), checkOneOf("window", b.Window, BudgetWindows), checkOneOf("on_breach", b.OnBreach, breachActions)); err != nil {
		return err
	}
	if b.Unpriced != UnpricedRefuse && b.Unpriced != UnpricedAllow {
		return InvalidField("unpriced", "unpriced is %q: give refuse or allow", Shorten(string(b.Unpriced), 40))
	}
	switch {
	case b.Scope == BudgetFleet && b.Value != "":
		return InvalidField("value", "value is %q, but the scope fleet has no value: leave it out, or give another scope", Shorten(b.Value, 60))
	case b.Scope != BudgetFleet && IsBlank(b.Value):
		return InvalidField("value", "value is required: name the %s", b.Scope)
	case len(b.Value) > MaxSelector:
		return InvalidField("value", "value has %d bytes: give at most %d", len(b.Value), MaxSelector)
	case b.Limit < 0 || b.Limit > MaxTaskCostUSD*1_000_000:
		return InvalidField("limit_usd", "limit_usd is %g: give more than 0 and at most %d", b.Limit.USD(), MaxTaskCostUSD)
	case b.TokenLimit < 0:
		return InvalidField("limit_tokens", "limit_tokens is %d: give at least 1", b.TokenLimit)
	case b.Limit == 0 && b.TokenLimit == 0:
		return InvalidField("limit_usd", "limit_usd is required, unless you give limit_tokens")
	}
	if b.Scope == BudgetLabel {
		if _, err := ParseSelector("value", b.Value); err != nil {
			return err
		}
	}
	if _, err := loadZone(b.TimeZone); err != nil {
		return InvalidField("time_zone", "time_zone is %q: give a name such as Europe/Berlin or UTC", Shorten(b.TimeZone, 60))
	}
	return nil
}

// checkOneOf returns INVALID_ARGUMENT if the value of the field is not one of the valid ones.
func checkOneOf[T ~string](field string, value T, valid []T) error {
	if slices.Contains(valid, value) {
		return nil
	}
	return InvalidField(field, "%s is %q: give %s", field, Shorten(string(value), 40), oneOf(valid))
}

// oneOf returns the values for an error, separated by commas.
func oneOf[T ~string](values []T) string {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = string(v)
	}
	return JoinNames(names)
}

// Applies reports whether the budget is for the task of the agent.
func (b *Budget) Applies(a *Agent, t *Task) bool {
	switch b.Scope {
	case BudgetFleet:
		return true
	case BudgetProject:
		return strings.EqualFold(b.Value, a.Project) || strings.EqualFold(b.Value, a.Place+"/"+a.Project)
	case BudgetPool:
		return a.Pool != "" && b.Value == a.Pool
	case BudgetRole:
		return strings.EqualFold(b.Value, a.Role) || strings.EqualFold(b.Value, a.Project+"/"+a.Role)
	case BudgetAgent:
		name, owner := SplitOwnedRef(b.Value)
		return strings.EqualFold(name, a.Name) && (owner == "" || owner == a.Owner)
	case BudgetOwner:
		return b.Value == a.Owner
	case BudgetCredential:
		return a.Host.Credential != "" && b.Value == a.Host.Credential
	case BudgetLabel:
		s, err := ParseSelector("value", b.Value)
		return err == nil && s.Matches(t.Labels)
	}
	return false
}

// ScopeText returns the scope with its value, for people.
func (b *Budget) ScopeText() string {
	if b.Scope == BudgetFleet {
		return string(b.Scope)
	}
	return string(b.Scope) + " " + b.Value
}

// String names the budget for people, with its limits and its scope.
func (b *Budget) String() string {
	return fmt.Sprintf("the budget %q (%s for %s)", b.Name, b.LimitText(), b.ScopeText())
}

// LimitText returns the limits for people.
func (b *Budget) LimitText() string {
	var parts []string
	if b.Limit > 0 {
		parts = append(parts, b.Limit.String())
	}
	if b.TokenLimit > 0 {
		parts = append(parts, TokensText(b.TokenLimit))
	}
	text := strings.Join(parts, " and ")
	if b.Window != WindowNone {
		text += " a " + string(b.Window)
	}
	return text
}

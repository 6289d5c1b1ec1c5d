package fleet

import "slices"

// Price is the price of a model, in US dollars per million tokens, with the size of its context.
type Price struct {
	Input         float64 `yaml:"input"`
	Output        float64 `yaml:"output"`
	CacheRead     float64 `yaml:"cache_read"`
	CacheWrite    float64 `yaml:"cache_write"`
	ContextWindow int     `yaml:"context"` // tokens that fit into a conversation; 0 if it is unknown
}

// USD returns the cost of a request in US dollars.
func (p Price) USD(u RequestUsage) float64 {
	return (float64(u.Input)*p.Input + float64(u.Output)*p.Output + float64(u.CacheRead)*p.CacheRead + float64(u.CacheWrite)*p.CacheWrite) / 1e6
}

// CostBasis says how the cost of a task is known.
type CostBasis string

// The bases of costs.
const (
	CostReported CostBasis = "reported" // the program reported it
	CostPriced   CostBasis = "priced"   // Fleet computed it from the tokens and the prices of the models
	CostUnknown  CostBasis = "unknown"  // the price of a model is unknown, so the cost is too low
)

// Spending has details of what a task has used, in addition to Task.CostUSD and Task.Usage. Fleet updates all of them while the task
// runs.
type Spending struct {
	Models        []ModelUsage `json:"models,omitempty"`
	Basis         CostBasis    `json:"basis,omitempty"`    // empty if nothing is known about the cost
	ContextTokens int64        `json:"context,omitempty"`  // tokens in the conversation after the newest request
	ContextWindow int64        `json:"window,omitempty"`   // tokens that fit into the conversation; 0 if it is unknown
	DeniedCalls   int          `json:"denied,omitempty"`   // number of denied tool calls
	HeldTry       int          `json:"held_try,omitempty"` // the Task.Try that continues the task after it was last interrupted because a budget was used up
	// Reserve is what budgets have reserved for the task; nil if the task has ended or no budget applies to it.
	Reserve *Reservation `json:"reserve,omitempty"`
	// Run is the current run's part of the cost and the usage. When the run ends, the report of the program replaces it.
	Run RunSpending `json:"run,omitzero"`
}

// IsZero reports whether nothing is known about the spending.
func (s *Spending) IsZero() bool {
	return len(s.Models) == 0 && s.Basis == "" && s.ContextTokens == 0 && s.DeniedCalls == 0 && s.HeldTry == 0 && s.Reserve == nil && s.Run == RunSpending{}
}

// Reservation is what budgets have reserved for a running task.
type Reservation struct {
	Amount
	UsedBefore Amount       `json:"before,omitzero"`  // what the task had used when it started
	Fixed      bool         `json:"fixed,omitempty"`  // the money is a limit of the task, so it does not grow
	Step       Amount       `json:"step,omitzero"`    // by how much it grows; for Fixed money: the limit minus UsedBefore
	Breach     BreachAction `json:"breach,omitempty"` // set when the task is interrupted because it has used up the reservation
}

// Used returns what the task has used so far.
func (t *Task) Used() Amount {
	return Amount{MicrosOf(t.CostUSD), t.Usage.InputTokens + t.Usage.OutputTokens}
}

// UsedUp reports whether the task has used all that is reserved for it.
func (t *Task) UsedUp() bool {
	r := t.Spending.Reserve
	if r == nil {
		return false
	}
	used := t.Used().Minus(r.UsedBefore)
	return (r.Micros > 0 || r.Fixed) && used.Micros >= r.Micros || r.Tokens > 0 && used.Tokens >= r.Tokens
}

// Allowance returns the amount that the current run of the task may use before it must wait until more is reserved. A field of the
// result is 0 if nothing limits it.
func (t *Task) Allowance() (a Amount) {
	r := t.Spending.Reserve
	if r == nil {
		return a
	}
	run := Amount{Micros: MicrosOf(t.Spending.Run.CostUSD), Tokens: t.Spending.Run.Input + t.Spending.Run.Output}
	left := r.UsedBefore.Plus(r.Amount).Minus(t.Used().Minus(run))
	if r.Micros > 0 {
		a.Micros = max(left.Micros, 1)
	}
	if r.Tokens > 0 {
		a.Tokens = max(left.Tokens, 1)
	}
	return a
}

// ModelUsage is a task's usage of one model.
type ModelUsage struct {
	RequestUsage
	Requests int `json:"requests"`
}

// RunSpending is what one run has added to the cost and the usage of its task.
type RunSpending struct {
	CostUSD       float64 `json:"cost_usd,omitempty"`
	Input, Output int64   `json:",omitempty"` // tokens
	Turns         int     `json:",omitempty"`
}

// maxModels limits how many models of a task are listed. The last one has the usage of all others.
const maxModels = 20

// AddStep adds the usage and the denied calls that a step of the task's run reports. If the step has no cost and price knows its model,
// AddStep sets the step's cost.
func (t *Task) AddStep(s *Step, price func(model string) (Price, bool)) {
	switch {
	case s.Type == StepDenied:
		t.Spending.DeniedCalls++
	case s.Type == StepUsage && s.Usage != nil:
		t.addRequest(s.Usage, s.Parent == "", price)
	}
}

// addRequest adds the usage of a request to a model. byMainAgent is false if a subagent has sent the request.
func (t *Task) addRequest(u *RequestUsage, byMainAgent bool, price func(string) (Price, bool)) {
	p, priced := price(u.Model)
	switch {
	case u.CostUSD > 0:
		if t.Spending.Basis == "" {
			t.Spending.Basis = CostReported
		}
	case priced:
		u.CostUSD = p.USD(*u)
		if t.Spending.Basis != CostUnknown {
			t.Spending.Basis = CostPriced
		}
	default:
		t.Spending.Basis = CostUnknown
	}
	t.CostUSD += u.CostUSD
	t.Usage.InputTokens += u.AllInput()
	t.Usage.OutputTokens += u.Output
	run := &t.Spending.Run
	run.CostUSD, run.Input, run.Output = run.CostUSD+u.CostUSD, run.Input+u.AllInput(), run.Output+u.Output
	if byMainAgent {
		t.Turns++
		run.Turns++
		t.Usage.Model = u.Model
		t.Spending.ContextTokens, t.Spending.ContextWindow = u.ContextTokens, u.ContextWindow
		if !u.Turn {
			t.Spending.ContextTokens, t.Spending.ContextWindow = u.AllInput()+u.Output, int64(p.ContextWindow)
		}
	}
	i := slices.IndexFunc(t.Spending.Models, func(m ModelUsage) bool { return m.Model == u.Model })
	if i < 0 && len(t.Spending.Models) < maxModels {
		i = len(t.Spending.Models)
		t.Spending.Models = append(t.Spending.Models, ModelUsage{RequestUsage: RequestUsage{Model: u.Model}})
	} else if i < 0 {
		i = maxModels - 1
	}
	m := &t.Spending.Models[i]
	m.Requests++
	m.Input, m.CacheRead, m.CacheWrite, m.Output = m.Input+u.Input, m.CacheRead+u.CacheRead, m.CacheWrite+u.CacheWrite, m.Output+u.Output
	m.CostUSD += u.CostUSD
}

// AddUsage adds the cost, the turns and the usage of a run that has ended to those of the task. They replace the values that the steps
// of the run have reported. A value that the run does not report stays, and so does a cost that is higher than a partial one.
func (t *Task) AddUsage(o Outcome) {
	run := t.Spending.Run
	t.Spending.Run = RunSpending{}
	if o.CostUSD > 0 && (!o.CostPartial || o.CostUSD > run.CostUSD) {
		t.CostUSD += o.CostUSD - run.CostUSD
		if !o.CostPartial {
			t.Spending.Basis = CostReported
		}
	}
	if o.Turns > 0 {
		t.Turns += o.Turns - run.Turns
	}
	if o.Usage.Model != "" {
		t.Usage.Model = o.Usage.Model
	}
	if o.Usage.InputTokens+o.Usage.OutputTokens > 0 {
		t.Usage.InputTokens += o.Usage.InputTokens - run.Input
		t.Usage.OutputTokens += o.Usage.OutputTokens - run.Output
	}
	t.Usage.ToolCalls += o.Usage.ToolCalls
}

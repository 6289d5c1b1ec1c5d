package fleet

import "time"

// QueueStats says how many tasks are pending, and since when, by their first reason.
type QueueStats struct {
	Tasks  map[WaitReason]int
	Oldest map[WaitReason]time.Time // when the oldest task was queued
	Paused bool                     // the queue of the whole fleet is paused
	// Budgets has the statistics of the budgets. When a budget is used up, its tasks wait with the reason WaitBudget.
	Budgets []BudgetStats
	// Credentials has the statistics of each credential for which the queue has a record.
	Credentials []CredentialStats
}

// CredentialStats are the statistics of a credential.
type CredentialStats struct {
	Name string
	Held bool               // no task of the queue starts with it
	Used map[string]float64 // used share of its usage windows, by window
}

// BudgetStats are the statistics of a budget in its current window.
type BudgetStats struct {
	Name                   string
	Limit, Reserved, Spent Amount // 0 in Limit means that money or tokens are not limited
}

package fleet

import "time"

// QueueFigures says how many tasks are pending, and since when, by their first reason.
type QueueFigures struct {
	Tasks  map[WaitReason]int
	Oldest map[WaitReason]time.Time // when the oldest one was queued
	Paused bool                     // the whole fleet
	// Budgets are the budgets, whose tasks wait with the reason WaitBudget when they are used up.
	Budgets []BudgetFigures
	// Credentials are the credentials of which something is known.
	Credentials []CredentialFigures
}

// CredentialFigures are the figures of a credential.
type CredentialFigures struct {
	Name string
	Held bool               // no task of the queue starts with it
	Used map[string]float64 // used share of its usage windows, by window
}

// BudgetFigures are the figures of a budget in its current window.
type BudgetFigures struct {
	Name                   string
	Limit, Reserved, Spent Amount // 0 in Limit means that money or tokens are not limited
}

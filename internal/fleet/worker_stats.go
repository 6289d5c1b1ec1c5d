package fleet

// WorkerStats describes the current work of a server, for its operator.
type WorkerStats struct {
	Workers int // one for each agent that needs work
	Waiting int // workers that wait because the server has its maximum number of calls to places running
	Leases  int // leases that the server holds

	Renewals, RenewFailures, LeasesLost int64 // since the server started
}

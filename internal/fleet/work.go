package fleet

// Work is how much a server has in hand, for its operator. The counts of leases only grow while the server runs.
type Work struct {
	Workers int // one for each agent with something to do
	Waiting int // workers that wait until few enough others call a place
	Leases  int // held now

	Renewals, RenewFailures, LeasesLost int64
}

"""Safety tasks of other domains: systems whose exact sets come from the knowledge of the domain."""

"""What the service measures, as pure functions on the standard library.

Events become spans, spans become a ledger, a ledger becomes totals, and a ratio is taken last.
Nothing here reads a clock, a file, the environment or a global. In the order of the way of an
event:

``words`` ``events``                     the words, and the facts that are sent
``dimensions`` ``intervals`` ``errors``  what jobs are told apart by; instants; what is raised
``ledger/attempts/attempts``             which attempt a fact belongs to, on a corrected clock
``ledger/attempts/attempt_events``       what one attempt's own facts say: points, signs of life
``ledger/attempts/spans``                its phases, and stages inside of them
``ledger/attempts/lives``                cycles of one launch, found by their processes
``ledger/attempts/lifetimes``            when each attempt began and ended; the job's state
``ledger/ownership``                     which span owns each instant; loop time that was repeated
``ledger/attempt_segments``              an attempt's segments, cut anew where something changed
``ledger/runs``                          attempts side by side, waits between them filled in
``ledger/owned_waits``                   whose each wait was
``ledger/speed`` ``ledger/ranks``        slow steps, and slow ranks
``ledger/attempt_results``               each attempt's numbers, and why it failed
``ledger/job_results``                   shares, recoveries, data quality, work done
``ledger/stages``                        every rank's spans, for traces and time by stage
``ledger/fold``                          all of it, once or forward
``ledger/results``                       the shapes of what comes out
``failures``                             the rules from evidence to origin and cause
``fleet``                                what a job adds to the fleet, by hour and cohort
``planning``                             forecasts, advice, and what others measure
``regressions``                          findings, their states and clocks
"""

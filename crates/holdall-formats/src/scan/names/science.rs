//! What models of scikit-learn, frames of pandas and random generators of NumPy are made of.
//!
//! Each is here because neither a call with arguments that a pickle can make, nor BUILD with any state, imports, opens or runs something that the
//! pickle does not name itself. What a pickle names is judged by its own name, so that calling it, as some of these do, does no more.
//! How a model behaves when it is used, and whether compiled code checks all that it is given, is not part of that.
//!
//! Most functions and methods `__setstate__` were read, in NumPy 2.4, pandas 3.1, SciPy 1.17 and scikit-learn 1.9. Constructors were not read but
//! tried: `interop/scan/audit.py` calls every name that there is with objects that pretend to be arrays, classes and functions.
//! Names of older releases that it does not find were left only where they are another place of the same class.
//!
//! - `numpy.random`: the constructors look a name up in a dict of four classes, or call the class that they are given with
//!   nothing; a second function may be given, whose result is used only if it is a generator. States are numbers.
//! - `pandas`: the functions `_new_…` call a class that they are given with names and values, and `__pyx_unpickle_NDArrayBacked` does
//!   without: these have to be pandas' own ([`Arguments::FirstIsOf`](super::Arguments)). Constructors of what holds arrays make
//!   arrays of their arguments, and are called with nothing ([`Use::CallWithNothing`]). BUILD sets attributes, or calls `__setstate__`, which takes
//!   blocks and axes from a dict or a tuple. Types and offsets take numbers and short texts.
//! - `scipy.sparse`, `BSpline`: BUILD sets attributes; constructors make arrays, and are called with nothing. `asarray` is
//!   an attribute of `BSpline`, and makes an array of anything, so that it is not called.
//! - scikit-learn's estimators, kernels and vectorizers: constructors set attributes of the same names as their
//!   arguments, and nothing else. BUILD takes `_sklearn_version` out of the state, warns if it is another, and sets attributes;
//!   that of `IsotonicRegression` makes an interpolation of two arrays, that of `Bunch` does nothing. Attributes that are
//!   functions (`FunctionTransformer.func`, `FeatureAgglomeration.pooling_func`) are called when a model is used.
//! - scikit-learn's losses and links: constructors take numbers.
//! - Importing any module of scikit-learn runs what is at its top, which is its own: names are accepted wherever in it they are.
//! - scikit-learn's trees (`Tree`, `KDTree`, `BallTree`, `TreePredictor`, distances), in C: `newObj(class)` is `class.__new__(class)`, and has to be given
//!   a class of scikit-learn; `__setstate__` takes arrays whose types and shapes it compares. `BallTree` calls a function that it is
//!   given as `metric`; distances take numbers and arrays.
//! - Functions of numbers are attributes of models, and are not called ([`Use::Refer`]).

use super::Use;

/// Whether `name` in `module` is in the lists below.
pub(super) fn is_safe(module: &str, name: &str) -> bool {
    // Where a class is within scikit-learn differs between versions. Only `Interval` and `Tree` are names of two classes, of which
    // the others hold numbers and labels; copies of other packages are not its own.
    if let Some(inside) = module.strip_prefix("sklearn.") {
        let is_own = !inside.split('.').any(|part| part == "externals");
        let is_new = name == "newObj"
            && matches!(
                inside,
                "neighbors._kd_tree" | "neighbors._ball_tree" | "metrics._dist_metrics"
            );
        return is_own
            && (is_new
                || SKLEARN.contains(&name)
                || FUNCTIONS.contains(&name)
                || OF_NUMPY.contains(&name));
    }
    LISTED.iter().any(|(modules, names)| modules.contains(&module) && names.contains(&name))
}

/// What the names of these packages are made for.
pub(super) fn use_of(module: &str, name: &str) -> Use {
    match module.split('.').next() {
        Some("sklearn") if FUNCTIONS.contains(&name) || name == "ndarray" => Use::Refer,
        Some("scipy") if name == "asarray" => Use::Refer,
        Some("scipy") => Use::CallWithNothing,
        Some("pandas") if is_container(name) => Use::CallWithNothing,
        _ => Use::Call,
    }
}

/// Whether a name is one of a class whose calls give objects of that class.
pub(super) fn is_class(module: &str, name: &str) -> bool {
    match module.split('.').next() {
        Some("sklearn") => SKLEARN.contains(&name),
        Some("pandas") => is_container(name),
        _ => false,
    }
}

/// Whether a class of pandas holds arrays, which it makes of what it is given.
fn is_container(name: &str) -> bool {
    matches!(name, "DataFrame" | "Series" | "Categorical")
        || !name.starts_with('_') && (name.ends_with("Index") || name.ends_with("Array"))
}

/// Modules, and the names in them, that only make values of what they are given.
const LISTED: &[(&[&str], &[&str])] = &[
    (
        &["numpy.random._pickle"],
        &["__bit_generator_ctor", "__generator_ctor", "__randomstate_ctor"],
    ),
    (
        &["numpy.random.bit_generator", "numpy.random._bit_generator"],
        &["SeedSequence", "__pyx_unpickle_SeedSequence"],
    ),
    (&["numpy.random._mt19937"], &["MT19937"]),
    (&["numpy.random._pcg64"], &["PCG64", "PCG64DXSM"]),
    (&["numpy.random._philox"], &["Philox"]),
    (&["numpy.random._sfc64"], &["SFC64"]),
    (
        &["pandas", "pandas.core.frame", "pandas.core.series", "pandas.core.api"],
        &[
            "DataFrame",
            "Series",
            "Index",
            "RangeIndex",
            "MultiIndex",
            "DatetimeIndex",
            "PeriodIndex",
            "IntervalIndex",
            "TimedeltaIndex",
            "CategoricalIndex",
            "Categorical",
            "CategoricalDtype",
            "StringDtype",
            "BooleanDtype",
            "Int8Dtype",
            "Int16Dtype",
            "Int32Dtype",
            "Int64Dtype",
            "UInt8Dtype",
            "UInt16Dtype",
            "UInt32Dtype",
            "UInt64Dtype",
            "Float32Dtype",
            "Float64Dtype",
            "PeriodDtype",
            "IntervalDtype",
            "DatetimeTZDtype",
            "Interval",
        ],
    ),
    (
        &[
            "pandas.arrays",
            "pandas.core.arrays.string_",
            "pandas.core.arrays.datetimes",
            "pandas.core.arrays.categorical",
            "pandas.core.arrays.integer",
            "pandas.core.arrays.boolean",
            "pandas.core.arrays.floating",
            "pandas.core.arrays.timedeltas",
            "pandas.core.arrays.period",
            "pandas.core.arrays.interval",
        ],
        &[
            "StringArray",
            "DatetimeArray",
            "TimedeltaArray",
            "PeriodArray",
            "IntervalArray",
            "IntegerArray",
            "FloatingArray",
            "BooleanArray",
            "Categorical",
            "StringDtype",
            "BooleanDtype",
            "Int64Dtype",
        ],
    ),
    (
        &["pandas.core.dtypes.dtypes"],
        &["CategoricalDtype", "DatetimeTZDtype", "PeriodDtype", "IntervalDtype"],
    ),
    (&["pandas.core.internals.managers"], &["BlockManager", "SingleBlockManager"]),
    (&["pandas.core.internals.blocks"], &["new_block"]),
    (&["pandas._libs.internals"], &["_unpickle_block"]),
    (&["pandas._libs.arrays"], &["__pyx_unpickle_NDArrayBacked"]),
    (&["pandas.core.indexes.base"], &["_new_Index", "Index"]),
    (&["pandas.core.indexes.datetimes"], &["_new_DatetimeIndex", "DatetimeIndex"]),
    (&["pandas.core.indexes.period"], &["_new_PeriodIndex", "PeriodIndex"]),
    (&["pandas.core.indexes.interval"], &["_new_IntervalIndex", "IntervalIndex"]),
    (&["pandas.core.indexes.range"], &["RangeIndex"]),
    (&["pandas.core.indexes.multi"], &["MultiIndex"]),
    (&["pandas.core.indexes.category"], &["CategoricalIndex"]),
    (&["pandas.core.indexes.timedeltas"], &["TimedeltaIndex"]),
    (&["pandas._libs.interval"], &["Interval"]),
    (&["pandas._libs.tslibs.timestamps"], &["_unpickle_timestamp"]),
    (&["pandas._libs.tslibs.timedeltas"], &["_timedelta_unpickle"]),
    (
        &["pandas._libs.tslibs.offsets"],
        &[
            "Day",
            "Hour",
            "Minute",
            "Second",
            "Milli",
            "Micro",
            "Nano",
            "MonthEnd",
            "MonthBegin",
            "QuarterEnd",
            "QuarterBegin",
            "YearEnd",
            "YearBegin",
            "Week",
            "BusinessDay",
        ],
    ),
    (&["scipy.sparse._csr", "scipy.sparse.csr", "scipy.sparse"], &["csr_matrix", "csr_array"]),
    (&["scipy.sparse._csc", "scipy.sparse.csc"], &["csc_matrix", "csc_array"]),
    (&["scipy.sparse._coo", "scipy.sparse.coo"], &["coo_matrix", "coo_array"]),
    (&["scipy.interpolate._bsplines"], &["BSpline"]),
    (&["scipy._lib.array_api_compat.numpy._aliases"], &["asarray"]),
];

/// Classes of scikit-learn, and functions of numbers that its models refer to.
const SKLEARN: &[&str] = &[
    "ARDRegression",
    "AdaBoostClassifier",
    "AdaBoostRegressor",
    "AdamOptimizer",
    "AdditiveChi2Sampler",
    "AffinityPropagation",
    "AgglomerativeClustering",
    "BaggingClassifier",
    "BaggingRegressor",
    "BallTree",
    "BallTree64",
    "BayesianGaussianMixture",
    "BayesianRidge",
    "BernoulliNB",
    "BernoulliRBM",
    "Binarizer",
    "Birch",
    "BisectingKMeans",
    "Bunch",
    "CCA",
    "CalibratedClassifierCV",
    "CategoricalNB",
    "ChebyshevDistance64",
    "ClassicalMDS",
    "ClassifierChain",
    "ColumnTransformer",
    "ComplementNB",
    "ConstantKernel",
    "CountVectorizer",
    "CyHalfBinomialLoss",
    "CyHalfGammaLoss",
    "CyHalfPoissonLoss",
    "CyHalfSquaredError",
    "CyHalfTweedieLossIdentity",
    "DBSCAN",
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "DictVectorizer",
    "DictionaryLearning",
    "DotProduct",
    "DummyClassifier",
    "DummyRegressor",
    "ElasticNet",
    "ElasticNetCV",
    "EllipticEnvelope",
    "EmpiricalCovariance",
    "EuclideanDistance64",
    "Exponentiation",
    "ExtraTreeClassifier",
    "ExtraTreeRegressor",
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
    "FactorAnalysis",
    "FastICA",
    "FeatureAgglomeration",
    "FeatureHasher",
    "FeatureUnion",
    "FunctionTransformer",
    "GammaRegressor",
    "GaussianMixture",
    "GaussianNB",
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
    "GenericUnivariateSelect",
    "GradientBoostingClassifier",
    "GradientBoostingRegressor",
    "GraphicalLasso",
    "GraphicalLassoCV",
    "GridSearchCV",
    "GroupKFold",
    "HDBSCAN",
    "HalfBinomialLoss",
    "HalfGammaLoss",
    "HalfPoissonLoss",
    "HalfSquaredError",
    "HalfTweedieLossIdentity",
    "HashingVectorizer",
    "Hinge",
    "HistGradientBoostingClassifier",
    "HistGradientBoostingRegressor",
    "HuberRegressor",
    "IdentityLink",
    "IncrementalPCA",
    "Interval",
    "IsolationForest",
    "Isomap",
    "IsotonicRegression",
    "IterativeImputer",
    "KBinsDiscretizer",
    "KDTree",
    "KDTree64",
    "KFold",
    "KMeans",
    "KNNImputer",
    "KNeighborsClassifier",
    "KNeighborsRegressor",
    "KNeighborsTransformer",
    "KernelCenterer",
    "KernelDensity",
    "KernelPCA",
    "KernelRidge",
    "LabelBinarizer",
    "LabelEncoder",
    "LabelPropagation",
    "LabelSpreading",
    "Lars",
    "LarsCV",
    "Lasso",
    "LassoCV",
    "LassoLars",
    "LassoLarsCV",
    "LassoLarsIC",
    "LatentDirichletAllocation",
    "LedoitWolf",
    "LinearDiscriminantAnalysis",
    "LinearRegression",
    "LinearSVC",
    "LinearSVR",
    "LocalOutlierFactor",
    "LocallyLinearEmbedding",
    "LogLink",
    "LogisticRegression",
    "LogisticRegressionCV",
    "LogitLink",
    "MDS",
    "MLPClassifier",
    "MLPRegressor",
    "ManhattanDistance64",
    "Matern",
    "MaxAbsScaler",
    "MeanShift",
    "MinCovDet",
    "MinMaxScaler",
    "MiniBatchDictionaryLearning",
    "MiniBatchKMeans",
    "MiniBatchNMF",
    "MiniBatchSparsePCA",
    "MinkowskiDistance64",
    "MissingIndicator",
    "ModifiedHuber",
    "MultiLabelBinarizer",
    "MultiOutputClassifier",
    "MultiOutputRegressor",
    "MultiTaskElasticNet",
    "MultiTaskLasso",
    "MultinomialNB",
    "NMF",
    "NearestCentroid",
    "NearestNeighbors",
    "NeighborhoodComponentsAnalysis",
    "Normalizer",
    "NuSVC",
    "NuSVR",
    "Nystroem",
    "OAS",
    "OPTICS",
    "OneClassSVM",
    "OneHotEncoder",
    "OneVsOneClassifier",
    "OneVsRestClassifier",
    "OrdinalEncoder",
    "OrthogonalMatchingPursuit",
    "OrthogonalMatchingPursuitCV",
    "OutputCodeClassifier",
    "PCA",
    "PLSCanonical",
    "PLSRegression",
    "PLSSVD",
    "PassiveAggressiveClassifier",
    "PassiveAggressiveRegressor",
    "PatchExtractor",
    "Perceptron",
    "Pipeline",
    "PoissonRegressor",
    "PolynomialCountSketch",
    "PolynomialFeatures",
    "PowerTransformer",
    "Product",
    "QuadraticDiscriminantAnalysis",
    "QuantileRegressor",
    "QuantileTransformer",
    "RANSACRegressor",
    "RBF",
    "RBFSampler",
    "RFE",
    "RFECV",
    "RadiusNeighborsClassifier",
    "RadiusNeighborsRegressor",
    "RadiusNeighborsTransformer",
    "RandomForestClassifier",
    "RandomForestRegressor",
    "RandomTreesEmbedding",
    "RandomizedSearchCV",
    "RationalQuadratic",
    "RegressorChain",
    "Ridge",
    "RidgeCV",
    "RidgeClassifier",
    "RidgeClassifierCV",
    "RobustScaler",
    "SGDClassifier",
    "SGDOneClassSVM",
    "SGDOptimizer",
    "SGDRegressor",
    "SVC",
    "SVR",
    "SelectFdr",
    "SelectFpr",
    "SelectFromModel",
    "SelectFwe",
    "SelectKBest",
    "SelectPercentile",
    "SelfTrainingClassifier",
    "SequentialFeatureSelector",
    "ShrunkCovariance",
    "ShuffleSplit",
    "SimpleImputer",
    "SkewedChi2Sampler",
    "SparsePCA",
    "SpectralBiclustering",
    "SpectralClustering",
    "SpectralCoclustering",
    "SpectralEmbedding",
    "SplineTransformer",
    "StackingClassifier",
    "StackingRegressor",
    "StandardScaler",
    "StratifiedKFold",
    "Sum",
    "TSNE",
    "TargetEncoder",
    "TfidfTransformer",
    "TfidfVectorizer",
    "TheilSenRegressor",
    "TimeSeriesSplit",
    "TransformedTargetRegressor",
    "Tree",
    "TreePredictor",
    "TruncatedSVD",
    "TweedieRegressor",
    "VarianceThreshold",
    "VotingClassifier",
    "VotingRegressor",
    "WhiteKernel",
    "_BinMapper",
    "_BinaryGaussianProcessClassifierLaplace",
    "_BisectingTree",
    "_CFNode",
    "_CFSubcluster",
    "_CalibratedClassifier",
    "_SigmoidCalibration",
];

/// Functions that models of scikit-learn refer to.
const FUNCTIONS: &[&str] = &["_kmeans_single_lloyd", "chi2", "f_classif", "f_regression"];

/// Names of NumPy, which no module of scikit-learn has: where joblib has an array of objects, `pickle.load` takes a
/// text of the model for the module that these are in.
const OF_NUMPY: &[&str] = &["_frombuffer", "_reconstruct", "dtype", "ndarray", "scalar"];
